"""Attacks by other users of the machine, in folders that both users may write."""

from __future__ import annotations

import json
import random
from typing import Any

from .. import forked
from ..pool import test_strangers as pools
from ..pool.test_strangers import LIES, OF_SERVERS, STRANGER, WRITER, SharedFolder, folder_of_all, jobs
from ..stores import test_readers as readers
from .attacks import ROOT_USER, Trial, attack

USERS: list[object] = ["root", "condor", "", "nobody", "root@localhost", None, 0, [], {"user": "root"}]


def _false_request(rng: random.Random) -> dict[str, Any]:
    """Return a request that claims to come from another user."""
    request, _ = rng.choice([*LIES, *OF_SERVERS])
    identities = {name: rng.choice(USERS) for name in rng.sample(["uid", "owner", "Owner", "by", "admin"], 2)}
    return {
        "id": f"lie-{rng.random()}",
        "user": rng.choice(USERS),
        **request,
        **(identities if rng.random() < 0.3 else {}),
    }


@attack(
    "lies-on-the-socket",
    promise="The kernel identifies clients, not the request: another user cannot change the owner's jobs.",
    fails="a change to a job of the owner, or a server that ends",
    needs=ROOT_USER,
)
def _lies_on_the_socket(trial: Trial) -> None:
    trial.tries = 20
    with folder_of_all() as shared:
        shared.call_as(None, "submit", "held.sub")
        with shared.served() as server:
            before = jobs(shared)
            for _ in range(trial.tries):
                request = _false_request(trial.rng)
                shared.ask_as_stranger(request)
                assert jobs(shared) == before, request
            assert server.poll() is None


@attack(
    "lies-in-the-log",
    promise="The same for a log that is not served; and no other user's job runs with the owner's permissions.",
    fails="a change to a job of the owner, or a job of the other user that ran as the owner",
    needs=ROOT_USER,
)
def _lies_in_the_log(trial: Trial) -> None:
    trial.tries = 11
    with folder_of_all() as shared:
        with shared.served():
            shared.call_as(None, "submit", "held.sub")
        before = jobs(shared)
        for _ in range(trial.tries - 1):
            request_text = json.dumps(_false_request(trial.rng))
            shared.open_up()
            forked.run(["-c", WRITER, request_text], cwd=shared.path, user=STRANGER)
            assert jobs(shared) == before, request_text
        assert "sound" in shared.call("verify")
    with folder_of_all() as shared:
        pools.test_a_job_in_a_log_that_root_serves_runs_with_its_owners_rights(shared)


@attack(
    "impostors",
    promise="Nothing is sent to another user's server or supervisor, or written to another user's directory.",
    fails="a request sent to an impostor, or a file in another user's folder",
    needs=ROOT_USER,
)
def _impostors(trial: Trial) -> None:
    pools.test_a_client_sends_nothing_to_another_users_server(trial.rng.choice([1, 50, 108, 200]))
    kind = trial.rng.choice(["a folder", "a link", "a file"])

    def folder_of_others(shared: SharedFolder) -> None:
        pools.test_a_folder_of_another_user_is_not_used(shared, kind)

    attempts = [
        pools.test_a_handle_uses_no_other_users_supervisor,
        pools.test_the_supervisor_takes_orders_from_no_other_user,
    ]
    trial.tries = 2
    with folder_of_all() as shared:
        trial.rng.choice([*attempts, folder_of_others])(shared)


@attack(
    "readers",
    promise="A reader of another user's log leaves no files next to it, and does not trust forged views.",
    fails="a file of the reader next to the log, or output from a forged view",
    needs=ROOT_USER,
)
def _readers(trial: Trial) -> None:
    trial.tries = len(readers.READING) + 2
    attempts = [readers.test_reading_another_users_log_leaves_no_files]
    attempts += [readers.test_reading_during_writes_leaves_no_files_of_the_reader]
    with readers.shared_folder() as shared:
        trial.rng.choice(attempts)(shared)
    uid, mode = trial.rng.choice([(readers.OTHER, 0o644), (readers.OTHER, 0o600), (readers.OWNER, 0o646)])
    with readers.shared_folder() as shared:
        readers.test_views_that_another_user_may_have_written_are_not_believed(shared, uid, mode)
