"""Pools of real processes on several machines, as far as one machine can provide them: each machine is a set of Linux
namespaces (network, PID, UTS, mount) with its own address on 10.77.0.0/24, host name, /etc/hosts, users, boot id and
directory. All machines are connected to one switch.

    with Network(tmp_path) as network:
        manager, worker = network.machine("cm1"), network.machine("ep1")
        daemon = worker.start(["sleep", "100"])
        network.cut(manager, worker)

The first process of each machine reads a pipe from the test. When the test ends, even by SIGKILL, the pipe closes, that
process ends, and the kernel then ends all other processes of the machine and removes its namespaces. So nothing remains
to be removed, and names need not be unique.

Only root can do this, with `ip` (iproute2), `nft` (nftables), `unshare` and `nsenter` (util-linux), and `cc` for clocks
that can be set (clock_offset.c). Kernels without netem are supported: `slow` runs slow_link.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from poolbook.adapters.replaced_files import replace_file

DOMAIN: Final = "poola.example"  #: of a machine, unless another one is given
USERS: Final = {"alice": 2001, "bob": 2002, "carol": 2003}  #: users of all machines, and their uids
PATIENCE: Final = 60.0  #: seconds to wait for a process of a machine
_SUBNET: Final = "10.77.0"
_INSIDE_NAT: Final = "192.168.77"
_CLOCK: Final = Path(__file__).with_name("clock_offset.c")
_SLOW_LINK: Final = Path(__file__).with_name("slow_link.py")

_ROOT: Final = Path(__file__).parents[2]

_BOOT = """
set -e
folder=$1 name=$2
shift 2
hostname "$name"
mount -t tmpfs tmpfs /dev/shm
mount --bind "$folder/system/etc" /etc
mount --bind "$folder/system/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$folder/home" /srv
kept() { while [ "$1" != : ]; do echo "$1"; shift; done; }
index=0
kept "$@" | while read -r kept; do
    index=$((index + 1)); mkdir -p "/dev/shm/kept$index"; mount --bind "$kept" "/dev/shm/kept$index"
done
(while [ "$1" != : ]; do shift; done; shift; for covered in "$@"; do mount -t tmpfs -o mode=755 tmpfs "$covered"; done)
kept "$@" | while read -r kept; do
    index=$((index + 1)); mkdir -p "$kept"; mount --bind "/dev/shm/kept$index" "$kept"; umount "/dev/shm/kept$index"
done
rmdir /dev/shm/kept*
echo ready
exec env --ignore-signal=CHLD cat > /dev/null
"""
"""What the first process of a machine does. Its arguments: the machine's directory and name, the directories to keep, a
colon, and the directories to cover, which belong to the other machines, and ones that only root may enter although
users run programs in them. The process ignores SIGCHLD, so that the kernel reaps orphans; it ends when its standard
input does."""

_SWITCH = """
link set lo up
link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
link set br0 up
"""
_CUTS = """
table bridge cuts {
    set lost { type ether_addr . ether_addr; }
    chain forward { type filter hook forward priority 0; ether saddr . ether daddr @lost drop; }
}
"""
_NAT = """
table ip nat {
    chain out { type nat hook postrouting priority 100; oifname eth0 masquerade; }
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        iifname inside accept
    }
}
"""


def missing_requirements() -> str:
    """Return what this machine lacks to run networks, or ""."""
    if os.geteuid():
        return "only root can create networks"
    programs = [name for name in ("ip", "nft", "unshare", "nsenter", "setpriv") if shutil.which(name) is None]
    if programs:
        return f"networks need {', '.join(programs)}"
    attempt = subprocess.run(["unshare", "--net", "--pid", "--uts", "--mount", "--fork", "true"], capture_output=True)
    return attempt.stderr.decode()


class Namespaces:
    """A set of namespaces that exists until `close` or until this process ends."""

    def __init__(self, kinds: Sequence[str], script: str, *arguments: str) -> None:
        options = [f"--{kind}" for kind in kinds]
        self._launcher = subprocess.Popen(
            ["unshare", *options, "--fork", "--kill-child", "sh", "-c", script, "sh", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert self._launcher.stdout is not None
        answer = self._launcher.stdout.readline()
        assert answer == "ready\n", f"cannot set up namespaces: {answer}"
        self.pid = child_of(self._launcher)
        self._kinds = [f"--{kind}" for kind in kinds if kind != "mount-proc"]

    def command(self, argv: Sequence[str], *kinds: str) -> list[str]:
        """Return the command that runs another one in these namespaces (default: in all of them)."""
        options = [f"--{kind}" for kind in kinds] or self._kinds
        return ["nsenter", "--target", str(self.pid), *options, "--", *argv]

    def ip(self, commands: str) -> None:
        """Run commands of `ip`, one a line, in the network namespace."""
        call(self.command(["ip", "-batch", "-"], "net"), commands)

    def nft(self, rules: str) -> None:
        call(self.command(["nft", "-f", "-"], "net"), rules)

    def close(self) -> None:
        """Kill the first process, and thereby all others of a PID namespace, at once."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._launcher.wait(PATIENCE)
        for stream in (self._launcher.stdin, self._launcher.stdout):
            assert stream is not None
            stream.close()


class Daemon:
    """A process that a machine runs in the background. Its output goes to the file `output`, from the byte `begin`;
    before that is the output of earlier processes."""

    def __init__(self, launcher: subprocess.Popen[bytes], output: Path, begin: int) -> None:
        self.launcher, self.output, self.begin = launcher, output, begin
        self.pid = child_of(launcher)  #: as this process sees it

    def running(self) -> bool:
        return self.launcher.poll() is None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process alone, not to its children."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def resume(self) -> None:
        """Continue the process after SIGSTOP. nsenter, its parent, stopped, too."""
        self.launcher.send_signal(signal.SIGCONT)
        self.kill(signal.SIGCONT)

    def wait(self) -> int:
        """Return the exit code: that of the process, or 128 and the signal's number."""
        code = self.launcher.wait(PATIENCE)
        return code if code >= 0 else 128 - code

    def text(self) -> str:
        """Return the output of this process and of earlier ones."""
        return self.output.read_text(errors="replace")

    def own_text(self) -> str:
        """Return the output of this process."""
        return self.output.read_bytes()[self.begin :].decode(errors="replace")


class Machine:
    """A machine of a network. `folder` is its directory: the same path inside and outside, invisible to the other
    machines. Each user has a directory in /srv, which is `home(user)` outside."""

    def __init__(
        self, network: Network, name: str, domain: str, number: int, *, behind_nat: bool, movable_clock: bool
    ) -> None:
        self.network, self.name, self.domain, self.number = network, name, domain, number
        self.behind_nat, self.movable_clock = behind_nat, movable_clock
        self.host = f"{name}.{domain}"
        self.folder = network.folder / name
        self.address = f"{_INSIDE_NAT}.2" if behind_nat else f"{_SUBNET}.{number}"
        self.mac = f"02:00:0a:4d:00:{number:02x}"  #: of the machine, or of its gateway; a cut names it
        self.port = f"port{number}"  #: the switch's end of the cable
        self.daemons: list[Daemon] = []
        self._gateway: Namespaces | None = None
        self._inside: Namespaces | None = None
        for folder in ("system", "home", "tmp"):
            (self.folder / folder).mkdir(parents=True)
        (self.folder / "tmp").chmod(0o1777)
        users = "".join(f"{user}:x:{uid}:100::/srv/{user}:/bin/sh\n" for user, uid in USERS.items())
        # A copy of the directory: if a file were mounted over /etc/passwd, the kernel would remove that mount as soon
        # as a package that is installed meanwhile replaces this machine's own file.
        call(["cp", "--archive", "/etc", str(self.folder / "system/etc")])
        with (self.folder / "system/etc/passwd").open("a") as file:
            file.write(users)
        for user, uid in USERS.items():
            self.home(user).mkdir()
            os.chown(self.home(user), uid, 100)
        if movable_clock:
            call(["cc", "-shared", "-fPIC", "-o", str(self.folder / "system/clock_offset.so"), str(_CLOCK)])
            (self.folder / "system/clock_offset").write_bytes(bytes(8))
        self.power_on()

    def running(self) -> bool:
        return self._inside is not None

    def home(self, user: str) -> Path:
        """Return a user's directory as seen from outside."""
        return self.folder / "home" / user

    def power_on(self) -> None:
        """Start the machine, with new namespaces and a new boot id. None of its daemons starts."""
        assert self._inside is None, f"{self.name} is already running"
        (self.folder / "system/boot_id").write_text(f"{uuid.uuid4()}\n")
        self.network.write_hosts(self)
        kinds = ("net", "pid", "uts", "mount", "mount-proc")
        kept = (self.folder, Path(sys.base_prefix), _ROOT)
        covered = {self.network.folder, *filter(None, map(_private_parent, kept[1:]))}
        arguments = [self.folder, self.host, *kept, ":", *sorted(covered)]
        self._inside = Namespaces(kinds, _BOOT, *map(str, arguments))
        self._inside.ip("link set lo up")
        if self.behind_nat:
            self._gateway = Namespaces(("net",), "echo ready; exec cat > /dev/null")
            self._gateway.nft(_NAT)
            self._plug_in(self._gateway, f"{_SUBNET}.{self.number}")
            self._gateway.ip(
                f"link add inside type veth peer name eth0 netns {self._inside.pid}\n"
                f"addr add {_INSIDE_NAT}.1/24 dev inside\nlink set inside up"
            )
            call(self._gateway.command(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], "net"))
            self._inside.ip(
                f"addr add {self.address}/24 dev eth0\nlink set eth0 up\nroute add default via {_INSIDE_NAT}.1"
            )
        else:
            self._plug_in(self._inside, self.address)

    def _plug_in(self, namespaces: Namespaces, address: str) -> None:
        self.network.switch.ip(
            f"link add {self.port} type veth peer name eth0 address {self.mac} netns {namespaces.pid}\n"
            f"link set {self.port} master {self.network.bridge(self)}\nlink set {self.port} up"
        )
        namespaces.ip(f"addr add {address}/24 dev eth0\nlink set eth0 up")

    def power_off(self) -> None:
        """Switch the machine off without warning: first its cable, so that no packet reports the end of its processes.
        Its files remain."""
        if self._inside is not None:
            self.network.switch.ip(f"link del {self.port}")
            for namespaces in (self._inside, self._gateway):
                if namespaces is not None:
                    namespaces.close()
            self._inside = self._gateway = None
            self._wait_for_daemons()

    def kill9(self) -> None:
        """Kill all processes at once. The machine's kernel still runs, and closes their connections."""
        self.run(["sh", "-c", "kill -KILL -1"], check=False)
        self._wait_for_daemons()
        psutil.wait_procs(list(self.processes()), PATIENCE)

    def _wait_for_daemons(self) -> None:
        for daemon in self.daemons:
            daemon.wait()

    def start(self, argv: Sequence[str | Path], name: str = "", **options: str) -> Daemon:
        """Start a daemon. Its output is appended to NAME.out in the machine's directory (default: the program's
        name). `options` are the same as for `run`: user, cwd."""
        output = self.folder / f"{name or Path(argv[0]).name}.out"
        begin = output.stat().st_size if output.exists() else 0
        with output.open("ab") as stream:
            launcher = subprocess.Popen(
                self._command(argv, **options), stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
            )
        self.daemons.append(Daemon(launcher, output, begin))
        return self.daemons[-1]

    def run(
        self, argv: Sequence[str | Path], *, check: bool = True, stdin: str = "", **options: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as root in the machine's directory, or as `user` in the user's; `cwd` names
        another directory."""
        result = subprocess.run(
            self._command(argv, **options), input=stdin, capture_output=True, text=True, timeout=PATIENCE
        )
        if check:
            assert result.returncode == 0, f"{self.name}: {argv}: {result.returncode}\n{result.stdout}{result.stderr}"
        return result

    def _command(self, argv: Sequence[str | Path], user: str = "", cwd: str = "") -> list[str]:
        assert self._inside is not None, f"{self.name} is switched off"
        home = f"/srv/{user}" if user else str(self.folder)
        variables = {"HOME": home, "USER": user or "root", "LOGNAME": user or "root", "TMPDIR": f"{self.folder}/tmp"}
        if user:  # its path leads through directories that only root may read
            variables["TMPDIR"] = "/tmp"
        if self.movable_clock:
            variables |= {
                "LD_PRELOAD": str(self.folder / "system/clock_offset.so"),
                "CLOCK_OFFSET_FILE": str(self.folder / "system/clock_offset"),
            }
        as_user = ["setpriv", "--reuid", user, "--regid", "100", "--clear-groups"] if user else []
        settings = [f"{name}={value}" for name, value in variables.items()]
        command = [*as_user, "env", "--chdir", cwd or home, *settings, *map(str, argv)]
        return self._inside.command(command)

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the machine's processes, without its first one."""
        assert self._inside is not None
        namespace = os.readlink(f"/proc/{self._inside.pid}/ns/pid")
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                if os.readlink(f"/proc/{process.pid}/ns/pid") == namespace and process.pid != self._inside.pid:
                    yield process

    def kill(self, text: str) -> int:
        """Kill (SIGKILL) the processes whose command line contains a text; return how many."""
        victims = [process for process in self.processes() if text in _command_line(process)]
        for process in victims:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return len(victims)

    def set_clock(self, offset: int) -> None:
        """Set the clock of all processes to the real time plus `offset` seconds, if the machine has a movable clock.
        Its monotonic clocks do not change."""
        with (self.folder / "system/clock_offset").open("r+b") as file:
            file.write(struct.pack("q", offset))


class Network:
    """Machines and the switch that connects them. Everything is removed at the end of the `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "machines"
        self.machines: dict[str, Machine] = {}
        self._slow_links: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Network:
        self.folder.mkdir()
        self.switch = Namespaces(("net", "pid"), "echo ready; exec cat > /dev/null")
        self.switch.ip(_SWITCH)
        self.switch.nft(_CUTS)
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines.values():
            machine.power_off()
        self.switch.close()

    def machine(
        self, name: str, domain: str = DOMAIN, *, behind_nat: bool = False, movable_clock: bool = False
    ) -> Machine:
        """Add a machine and start it. One behind NAT has a private address; it can open connections, and no machine
        can open one to it."""
        number = len(self.machines) + 1
        machine = Machine(self, name, domain, number, behind_nat=behind_nat, movable_clock=movable_clock)
        self.machines[name] = machine
        for other in self.machines.values():
            self.write_hosts(other)
        return machine

    def write_hosts(self, machine: Machine) -> None:
        """Write a machine's /etc/hosts: itself, and the machines that have an address on the switch's subnet. The file
        is replaced as a whole, because a program that reads half of it does not find the other machines."""
        known = [other for other in self.machines.values() if other is not machine and not other.behind_nat]
        lines = [f"{each.address} {each.host} {each.name}" for each in (machine, *known)]
        replace_file(machine.folder / "system/etc/hosts", "\n".join(["127.0.0.1 localhost", *lines, ""]))

    def cut(self, one: Machine, other: Machine) -> None:
        """Lose all packets between two machines. Neither of them notices."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, source: Machine, target: Machine) -> None:
        """Lose all packets from one machine to another."""
        self.switch.nft(f"add element bridge cuts lost {{ {source.mac} . {target.mac} }}")

    def cut_off(self, machine: Machine) -> None:
        """Pull the machine's cable out of the switch. The machine sees that its link is down."""
        self.switch.ip(f"link set {machine.port} down")

    def slow(self, machine: Machine, bytes_per_second: float = 0, delay: float = 0, **options: float) -> None:
        """Limit the rate of a machine's link in each direction (0: no limit), and delay each packet by `delay` seconds.
        Options: jitter (seconds; a random additional delay, which reorders packets), loss and duplicates
        (probabilities)."""
        self._remove_slow_link(machine)
        near, far, bridge = (f"{kind}{machine.number}" for kind in ("near", "far", "slow"))
        self.switch.ip(
            f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\nlink set {bridge} up\n"
            f"tuntap add dev {near} mode tap\nlink set {near} master {bridge}\nlink set {near} up\n"
            f"tuntap add dev {far} mode tap\nlink set {far} master br0\nlink set {far} up"
        )
        settings = {"rate": bytes_per_second, "delay": delay} | options
        program = [sys.executable, str(_SLOW_LINK), near, far, *(f"{k}={v}" for k, v in settings.items())]
        link = subprocess.Popen(self.switch.command(program), stdout=subprocess.PIPE, text=True)
        self._slow_links[machine.name] = link
        assert link.stdout is not None
        assert link.stdout.readline() == "ready\n", f"cannot slow the link of {machine.name}"
        if machine.running():
            self.switch.ip(f"link set {machine.port} master {bridge}")

    def bridge(self, machine: Machine) -> str:
        """Return the bridge that a machine's cable is plugged into."""
        return f"slow{machine.number}" if machine.name in self._slow_links else "br0"

    def _remove_slow_link(self, machine: Machine) -> None:
        link = self._slow_links.pop(machine.name, None)
        if link is not None:
            assert link.stdout is not None
            os.kill(child_of(link), signal.SIGKILL)
            link.wait(PATIENCE)
            link.stdout.close()
            if machine.running():
                self.switch.ip(f"link set {machine.port} master br0")
            self.switch.ip("".join(f"link del {kind}{machine.number}\n" for kind in ("near", "far", "slow")))

    def heal(self) -> None:
        """Undo all cuts and slow links."""
        self.switch.nft("flush set bridge cuts lost")
        for machine in self.machines.values():
            self._remove_slow_link(machine)
            if machine.running():
                self.switch.ip(f"link set {machine.port} up")


def _command_line(process: psutil.Process) -> str:
    with suppress(psutil.Error):  # it ends
        return " ".join(process.cmdline())
    return ""


def _private_parent(path: Path) -> Path | None:
    """Return the topmost directory above a path that only its owner may enter."""
    return next((parent for parent in reversed(path.parents) if not parent.stat().st_mode & 1), None)


def call(command: Sequence[str], stdin: str = "") -> None:
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, f"{command}: {result.stderr}\n{stdin}"


def child_of(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> int:
    """Return the pid of the only child of a process that forks once."""
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        with suppress(FileNotFoundError):
            if children := Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                return int(children[0])
        time.sleep(0.001)
    raise AssertionError(f"{process.args!r} has not forked: {process.poll()}")
