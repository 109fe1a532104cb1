"""Send a mail to an SMTP server: the mail is standard input; server, sender and addresses are arguments."""

from __future__ import annotations

import smtplib
import socket
import sys

_TIMEOUT = 15.0  #: seconds to wait for the server's answer


def main() -> int:
    server, sender, *addresses = sys.argv[1:]
    host, _, port = server.rpartition(":") if server.count(":") == 1 else (server, "", "0")
    try:
        with smtplib.SMTP(host, int(port), timeout=_TIMEOUT) as connection:
            mail = sys.stdin.buffer.read().replace(b"\n", b"\r\n")
            connection.sendmail(sender or f"condor@{socket.getfqdn()}", addresses, mail)
    except (OSError, ValueError, smtplib.SMTPException) as error:
        print(f"{server}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
