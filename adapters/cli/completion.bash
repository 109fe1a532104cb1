_poolbook() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]#condor_} options= files= offers=
    local commands='@commands@ help'
    COMPREPLY=()
    if ((COMP_CWORD == 1)) || [[ $command == @(help|man) ]]; then
        COMPREPLY=($(compgen -W "$commands" -- "$cur"))
        return
    fi
@renamed@
    case "$command $prev" in
@offers@
        @files@) files=1 ;;
        @values@) return ;;
        *)
            case $command in
@tables@
            esac ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    elif [[ $offers ]]; then
        COMPREPLY=($(compgen -W "$offers" -- "$cur"))
    elif [[ $files ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -F _poolbook poolbook
