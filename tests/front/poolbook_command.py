"""The command ``poolbook`` of a shell in tests: a process that this worker's server forks (see forked.py), so that it
starts quickly. The arguments are the name that was typed, the server's descriptor, and the command's arguments. It has
the host name of the shell's namespace, and the user whose number is in AS_USER."""

import json
import os
import signal
import socket
import struct
import sys
from types import FrameType

CODE = "import sys; sys.argv[0] = {!r}; from poolbook.adapters.cli.main import entry; entry()"
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(name: str, server: str, *arguments: str) -> int:
    status, writer = os.pipe()
    request = {
        "words": ["-c", CODE.format(name), *arguments],
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "session": False,
        "umask": None,
        "groups": None,
        "user": int(os.environ["AS_USER"]) if "AS_USER" in os.environ else None,
        "host": os.uname().nodename,
        "ignored": [],
    }
    with socket.socket(fileno=int(server)) as connection:
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2, writer])
    os.close(writer)
    pid = _number(status)

    def pass_on(number: int, _: FrameType | None) -> None:
        os.kill(pid, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    return os.waitstatus_to_exitcode(_number(status))


def _number(source: int) -> int:
    return int(struct.unpack("i", os.read(source, 4))[0])


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]) & 0xFF)
