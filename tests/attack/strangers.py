"""Other users of the machine, in folders in which both may write."""

from __future__ import annotations

import json
import random
from typing import Any

from .. import forked
from ..pool import test_strangers as pools
from ..pool.test_strangers import LIES, OF_SERVERS, STRANGER, WRITER, Shared, folder_of_all, jobs
from ..stores import test_readers as readers
from .attacks import ROOT_USER, Trial, attack

WHO: list[object] = ["root", "condor", "", "nobody", "root@localhost", None, 0, [], {"user": "root"}]


def _lie(chance: random.Random) -> dict[str, Any]:
    """A request of another user's that claims to be somebody's."""
    request, _ = chance.choice([*LIES, *OF_SERVERS])
    more = {name: chance.choice(WHO) for name in chance.sample(["uid", "owner", "Owner", "by", "admin"], 2)}
    return {
        "id": f"lie-{chance.random()}",
        "user": chance.choice(WHO),
        **request,
        **(more if chance.random() < 0.3 else {}),
    }


@attack(
    "lies-on-the-socket",
    promise="The kernel identifies clients, not the request: another user cannot change the owner's jobs.",
    fails="a job of the owner's that is changed, or a server that ends",
    needs=ROOT_USER,
)
def _lies_on_the_socket(trial: Trial) -> None:
    trial.tries = 20
    with folder_of_all() as shared:
        shared.call_as(None, "submit", "held.sub")
        with shared.served() as server:
            before = jobs(shared)
            for _ in range(trial.tries):
                request = _lie(trial.chance)
                shared.ask_as_stranger(request)
                assert jobs(shared) == before, request
            assert server.poll() is None


@attack(
    "lies-in-the-log",
    promise="The same for a log that is not served; and no other user's job runs with the owner's permissions.",
    fails="a job of the owner's that is changed, or one of the other's that ran as the owner",
    needs=ROOT_USER,
)
def _lies_in_the_log(trial: Trial) -> None:
    trial.tries = 11
    with folder_of_all() as shared:
        with shared.served():
            shared.call_as(None, "submit", "held.sub")
        before = jobs(shared)
        for _ in range(trial.tries - 1):
            lie = json.dumps(_lie(trial.chance))
            shared.open_up()
            forked.run(["-c", WRITER, lie], cwd=shared.path, user=STRANGER)
            assert jobs(shared) == before, lie
        assert "sound" in shared.call("verify")
    with folder_of_all() as shared:
        pools.test_where_root_serves_a_job_that_lies_in_the_log_runs_with_its_owners_rights(shared)


@attack(
    "impostors",
    promise="Nothing is sent to another user's server or supervisor, or written to another user's directory.",
    fails="a request that an impostor was told, or a file in a folder that is not the owner's",
    needs=ROOT_USER,
)
def _impostors(trial: Trial) -> None:
    pools.test_a_client_tells_nothing_to_a_server_of_somebody_else(trial.chance.choice([1, 50, 108, 200]))
    kind = trial.chance.choice(["a folder", "a link", "a file"])

    def folder_of_others(shared: Shared) -> None:
        pools.test_a_folder_that_is_not_ours_is_not_used(shared, kind)

    tried = [pools.test_a_handle_takes_nobody_elses_supervisor, pools.test_the_supervisor_takes_orders_of_no_other_user]
    trial.tries = 2
    with folder_of_all() as shared:
        trial.chance.choice([*tried, folder_of_others])(shared)


@attack(
    "readers",
    promise="A reader of another user's log leaves no files next to it, and does not trust forged views.",
    fails="a file of the reader's beside the log, or a forged view that is shown",
    needs=ROOT_USER,
)
def _readers(trial: Trial) -> None:
    trial.tries = len(readers.READING) + 2
    tried = [readers.test_reading_anothers_log_leaves_nothing_beside_it]
    tried += [readers.test_reading_beside_a_writer_leaves_nothing_of_the_readers]
    with readers.shared_folder() as shared:
        trial.chance.choice(tried)(shared)
    uid, mode = trial.chance.choice([(readers.OTHER, 0o644), (readers.OTHER, 0o600), (readers.OWNER, 0o646)])
    with readers.shared_folder() as shared:
        readers.test_views_that_another_may_have_written_are_not_believed(shared, uid, mode)
