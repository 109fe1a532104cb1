"""Send requests to a pool: to the log's server, or by becoming the log's writer for one request.

A request is a command as JSON: ``{"kind": "Hold", "id": ..., ...}``; ``command_codec`` lists the kinds. `ask` adds an
id and repeats the request if it receives no answer; a request with the same id receives the first answer.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...domain.ports.action_results import ActionResult
from ...domain.ports.log import LogError
from ..machine.host import user_name
from ..sockets import connect, peer_of
from ..stores.log_paths import LogPaths, WriterLock, log_paths
from .elsewhere import is_elsewhere
from .requests import LONGEST_DESCRIPTION, Request, RequestRefused, SubmitDescription, Submitted, SubmitTerms, new_id

if TYPE_CHECKING:
    from ...domain.ports.log import EventStore
    from .log_writer import LogWriter

T = TypeVar("T")
PATIENCE = 30.0  #: maximum seconds that a command waits for the server, or for another short command


class PoolClient(Protocol):
    """A client of a pool: this process as the log's writer, or a connection to the log's server."""

    def ask(self, request: Request) -> Any:
        """Return the answer. Raise `RequestRefused` if the pool rejects the request, `LogError` if the log cannot be
        read or written, `ConnectionError` if the server has stopped; then ask again with the same id."""

    def submit(self, description: SubmitDescription, *, keep: bool) -> Submitted:
        """Submit the jobs of a submit file. With `keep`, also return the parsed file. Raise the errors of `ask`."""

    def close(self) -> None: ...


def ask(url: str, request: Request, *, create: Mapping[str, str] | None = None) -> Any:
    """Execute `request` and return the answer. With `create`, create a missing log with these settings. Raise
    `RequestRefused` if the pool rejects the request, `LogError` if the log cannot be read or written, or its writer
    does not answer."""
    identified = {"id": new_id(), **request}
    return _ask_client(url, create, lambda client: client.ask(identified))


def change_jobs(url: str, request: Request) -> list[ActionResult]:
    """Execute a command about jobs and return its results. Raise the same errors as `ask`."""
    return [ActionResult(**fields) for fields in ask(url, request)]


def submit(url: str, description: SubmitDescription, *, keep: bool = False) -> Submitted:
    """Submit the jobs of a submit file; create a missing log. With `keep`, parse the submit file in this process and
    return the result, too. Raise `SubmitError` if the submit file is invalid, `ConfigError` if the user's own
    configuration cannot be read, and the errors of `ask`."""
    return _ask_client(url, None, lambda client: client.submit(description, keep=keep))


def _ask_client(url: str, create: Mapping[str, str] | None, question: Callable[[PoolClient], T]) -> T:
    for client in _clients(url, create):
        with closing(client), suppress(ConnectionError):
            return question(client)
    raise AssertionError("unreachable: the clients end with an error")


def _clients(url: str, create: Mapping[str, str] | None) -> Iterator[PoolClient]:
    """Yield a client of the pool, and another one each time a client fails. Raise `LogError` if the log has a writer
    that does not accept requests."""
    if is_elsewhere(url):
        yield _Elsewhere(url)
        raise LogError(f"{url} does not answer")
    place = log_paths(url)
    until = time.monotonic() + PATIENCE
    lock = WriterLock(url)
    holders: dict[str, None] = {}
    try:
        while True:
            try:
                is_locked = lock.take_in_turn()
            except OSError as error:
                if not (isinstance(error, PermissionError) and is_served(url)):  # such users may still send requests
                    rule = "the log's directory must be writable"
                    raise LogError(f"{place.lock_path} cannot be written: {error.strerror}; {rule}") from None
                is_locked = False
            if is_locked:
                yield _Writer(url, lock, create)
            else:
                try:
                    connection = ServerConnection(place)
                except (ConnectionError, FileNotFoundError, BlockingIOError):  # the last: too many connections wait
                    pass
                except PermissionError as error:
                    rule = "it accepts requests from its own user, and from users who may write to its socket"
                    raise LogError(f"the log's server cannot be reached: {error.strerror or error}; {rule}") from None
                else:
                    yield connection
            # No server is listening: other short commands hold the lock, or the server is starting or stopping.
            holders[lock.holder()] = None
            if time.monotonic() > until:
                raise LogError(_still_waiting(list(holders)))
            time.sleep(0.02)
    finally:
        lock.give_up()


def _still_waiting(holders: list[str]) -> str:
    """Return why a command could not write the log. ``holders`` are the processes that had locked it."""
    if len(holders) == 1:
        return (
            f"process {holders[0]} has been writing this log for {PATIENCE:.0f} s without accepting requests; "
            "try again when it is done"
        )
    return (
        f"{len(holders)} processes, the last of them {holders[-1]}, have been writing this log in turn for "
        f"{PATIENCE:.0f} s, and this command is still waiting; try again later, or serve the log (poolbook serve): "
        "a server handles many clients"
    )


def is_served(url: str) -> bool:
    """Return True if a server accepts requests for the log."""
    if is_elsewhere(url):
        return True
    place = log_paths(url)
    try:
        connect(place.socket_path, place.trusted_users(), timeout=0).close()
    except BlockingIOError:  # the queue of waiting connections is full
        return True
    except OSError:
        return False
    return True


def is_written(url: str) -> bool:
    """Return True if a process has locked the log: a server, even one that is just starting, or a short command. Also
    return True for users without access; `ask` then explains the reason."""
    lock = WriterLock(url)
    try:
        free = lock.try_acquire()
    except PermissionError:
        return True
    except OSError:
        return False
    lock.give_up()
    return not free


def _submitted(answer: Mapping[str, Any], warnings: Sequence[str], parsed: Any = None) -> Submitted:
    warning, factory = answer.get("warning", ""), bool(answer.get("factory"))
    return Submitted(answer["cluster"], answer["count"], warnings, parsed, warning, factory)


def _answer_in(line: bytes) -> Any:
    """Return the answer in a server's line. Raise `LogError` or `RequestRefused` if it contains an error."""
    answer = json.loads(line)
    if "error" in answer:
        raise LogError(answer["error"])
    if "refusal" in answer:
        code, tool_message = answer.get("code", ""), answer.get("tool", "")
        raise RequestRefused(answer["refusal"], answer.get("warnings", ()), code, tool_message)
    return answer["answer"]


def _submit_read_here(client: PoolClient, description: SubmitDescription, terms: SubmitTerms) -> Submitted:
    """Read a submit file in this process, and send its jobs."""
    from .submit_request import Reading, as_json

    reading = Reading(description)
    settings, _ = reading.user_settings()  # the server has sent the warnings
    read = reading.request(terms, settings)
    try:
        answer = client.ask(as_json(read.request))
    except RequestRefused as refused:
        raise RequestRefused(str(refused), read.warnings, refused.code, refused.tool) from None
    return _submitted(answer, read.warnings, read.parsed)


class ServerConnection:
    """A connection to the log's server. Raises `ConnectionError` or `FileNotFoundError` if no server listens,
    `PermissionError` if this user has no access, or should not trust the server."""

    def __init__(self, place: LogPaths) -> None:
        self._place = place
        self._socket = connect(place.socket_path, place.trusted_users(), PATIENCE)
        self._stream = self._socket.makefile("rwb")

    def close(self) -> None:
        with suppress(OSError):  # unsent data is no longer needed
            self._stream.close()
        self._socket.close()

    def exchange(self, request: bytes) -> bytes:
        """Send a request as a line of JSON, and return the answer. Raise `LogError` or `ConnectionError`."""
        try:
            self._stream.write(request + b"\n")
            self._stream.flush()
            line = self._stream.readline()
        except TimeoutError:
            raise LogError(
                f"the server of {self._place.socket_path} has not answered for {PATIENCE:.0f} s. It is busy or "
                f"stopped. It may still process the request: check with `poolbook q` and `poolbook log`, then try again"
            ) from None
        if not line:
            raise ConnectionResetError
        return line

    def ask(self, request: Request) -> Any:
        return _answer_in(self.exchange(json.dumps(request).encode()))

    def submit(self, description: SubmitDescription, *, keep: bool) -> Submitted:
        if keep or not self._reads(description):
            return _submit_read_here(self, description, SubmitTerms(**self.ask({"kind": "ReserveCluster"})))
        answer = self.ask(description.as_request())
        if "terms" in answer:  # the server lets this process read the submit file
            return _submit_read_here(self, description, SubmitTerms(**answer["terms"]))
        return _submitted(answer, answer["warnings"])

    def _reads(self, description: SubmitDescription) -> bool:
        """Return True if the server may read the submit file: the file is short, and the server runs as this user."""
        return len(description.text) <= LONGEST_DESCRIPTION and peer_of(self._socket) == os.geteuid()


class _Elsewhere:
    """The pool of a manager on another machine."""

    def __init__(self, url: str) -> None:
        self._url = url

    def close(self) -> None:
        pass

    def ask(self, request: Request) -> Any:
        from ..https.remote_pool import remote_pool

        return _answer_in(remote_pool(self._url).send(json.dumps(request).encode()))

    def submit(self, description: SubmitDescription, *, keep: bool) -> Submitted:
        return _submit_read_here(self, description, SubmitTerms(**self.ask({"kind": "ReserveCluster"})))


class _Writer:
    """This process as the log's writer. The first request opens the log."""

    def __init__(self, url: str, lock: WriterLock, create: Mapping[str, str] | None) -> None:
        self._url, self._lock, self._create = url, lock, create
        self._log: EventStore | None = None
        # All modules loaded for the request stay in use, so collecting garbage among them is useless.
        self._collecting = gc.isenabled()
        gc.disable()

    def close(self) -> None:
        if self._collecting:
            gc.enable()
        try:
            if self._log is not None:
                self._log.close()
        finally:
            self._lock.give_up()

    def _log_writer(self, create: Mapping[str, str] | None) -> LogWriter:
        from ..machine.local_time import local_time
        from .log_writer import LogWriter, NullWorld
        from .open_pool import open_pool_log
        from .snapshot import Snapshot

        self._log = open_pool_log(self._url, create=create is not None, settings=create)
        writer = LogWriter(self._log, NullWorld(), snapshot=Snapshot(self._url), zone=local_time())
        writer.load()
        return writer

    def ask(self, request: Request) -> Any:
        writer = self._log_writer(self._create)
        if request["kind"] == "ReserveCluster":  # while no server runs, the next submission gets this number
            return SubmitTerms.from_state(writer.state, writer.state.next_cluster)._asdict()
        from .command_codec import command_of

        # A process that may write the log may also act for other users.
        user = request.get("on_behalf", user_name())
        command = {name: value for name, value in request.items() if name != "on_behalf"}
        (answer,) = writer.handle([command_of({**command, "user": user})])
        if answer.refusal:
            raise RequestRefused(answer.refusal, (), answer.code, answer.tool)
        return answer.value

    def submit(self, description: SubmitDescription, *, keep: bool) -> Submitted:
        from ...domain.ports.stimuli import ConfigurePool
        from ...domain.state.pool_settings import DOMAINS
        from .submit_request import Reading

        reading = Reading(description)
        settings, notes = reading.user_settings()
        lines = [f"poolbook submit: warning: {warning}" for warning in notes]
        # A new log receives the user's own domains, so that a server finds its users in them.
        try:
            writer = self._log_writer({name: settings[name] for name in DOMAINS if name in settings})
            # A log that no server has configured yet receives the policy of the submitting user.
            policy = reading.policy() if writer.state.settings == writer.state.founding_settings else {}
            if policy:
                writer.handle([ConfigurePool(writer.id("configure"), policy)])
            read = reading.request(SubmitTerms.from_state(writer.state, writer.state.next_cluster), settings)
            (answer,) = writer.handle([read.request])
        except RequestRefused as refused:
            raise RequestRefused(str(refused), [*lines, *refused.warnings], refused.code, refused.tool) from None
        lines += read.warnings
        if answer.refusal:
            raise RequestRefused(answer.refusal, lines, answer.code, answer.tool)
        return _submitted(answer.value, lines, read.parsed)
