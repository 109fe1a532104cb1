"""A separate process that writes a log: `writer.py URL MARK`, then a command a line; it answers each with a line.

 append SLOT COUNT -> stored POSITION, or fenced; flood COUNT -> stored POSITION after each append of COUNT, endlessly;
refresh -> head POSITION; epoch -> epoch NUMBER; close -> closed, and the end.
"""

from __future__ import annotations

import sys

from tests.stores.samples import AT, changed

from poolbook.adapters.stores.opening import open_log
from poolbook.domain.ports.log import Fenced


def main(url: str, mark: str) -> None:
    log = open_log(url, create=True, mark=mark)
    print("open", flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            if command == "append":
                answer = f"stored {log.append([changed(i, slot=arguments[0]) for i in range(int(arguments[1]))])}"
            elif command == "refresh":
                answer = f"head {log.refresh().position}"
            elif command == "epoch":
                answer = f"epoch {log.raise_epoch('writer', AT, 's')}"
            elif command == "flood":
                while True:
                    print("stored", log.append([changed(i) for i in range(int(arguments[0]))]), flush=True)
            else:
                log.close()
                print("closed", flush=True)
                return
        except Fenced:
            answer = "fenced"
        print(answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
