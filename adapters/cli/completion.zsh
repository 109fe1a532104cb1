#compdef poolbook
_poolbook() {
    local -a commands options offers
    local command=${words[2]#condor_} files=
    commands=(@commands@ 'help:the help of a command')
    if (( CURRENT == 2 )) || [[ $command == (help|man) ]]; then
        _describe command commands
        return
    fi
@renamed@
    case "$command $words[CURRENT-1]" in
@offers@
        (@files@) _files; return ;;
        (@values@) return ;;
    esac
    case $command in
@tables@
    esac
    if [[ $PREFIX == -* ]]; then
        _describe -o option options
    elif (( $#offers )); then
        compadd -- $offers
    elif [[ -n $files ]]; then
        _files
    fi
}
compdef _poolbook poolbook
