"""The words of ``why``: for each kind of a sentence, named by its code, a template of its facts (``templates``).

A sentence tells the effect before its cause, and evidence in ``<<...>>`` last. To mend a sentence of ``why``, mend it
here; the words for causes stand in ``causes``.
"""

from __future__ import annotations

from typing import Final

# fmt: off
_HEADS: Final = {
    # where a job is
    "job_idle": "Job {job} has been waiting (Idle) since {since}.",
    "job_running": "Job {job} has been running[ on {slot}] since {since}.",
    "job_suspended": "Job {job} has been suspended[ on {slot}] since {since}.",
    "job_held": "Job {job} has been held since {since}.",
    "job_removing": "Job {job} was removed at {since}, and its processes[ on {slot}] have not ended yet.",
    "job_removed": "Job {job} was removed at {since}.",
    "job_completed": "Job {job} completed at {since}[, with {how}].",
    "job_ended": "Job {job} has ended at {since}, and its processes[ on {slot}] have not gone yet.",
    "job_unknown": "Job {job} is somewhere that no record tells of since {since}.",
    # where a slot is
    "slot_is": "Slot {slot} has been {pair} since {since}[; job {runs}[ of {holder}] runs on it].",
    "slot_is_held": "Slot {slot} has been {pair} since {since}; {holder} holds it.",
    "slot_gone": "Slot {slot} has been gone since {since}.",
    "slot_unknown": "Slot {slot} is somewhere that no record tells of; the last record is of {since}.",
    "cluster": "Cluster {cluster} has {jobs}: {counts}.",
}
_JOBS: Final = {
    # a job's life in a pool of our own
    "submitted": "{user} submitted job {job}[, one of {count}][, on hold: {hold}]<<[ ({named})]>>.",
    "matched": "The negotiator matched job {job} with {slot}{who}.<<[ Its ranks: {ranks}.][ {evidence}.]>>",
    "match_void": "The match of job {job} with {slot} came to nothing: {why}.",
    "waits_for_slot": "Job {job} waits until {slot} is free of the job that it has.",
    "slot_awaited": "{who} waits for the slot of job {job}{why}.",
    "wait_over": "Job {job} waits for {slot} no longer: {why}.",
    "slot_awaited_no_more": "Nobody waits for the slot of job {job} any more: {why}.",
    "started": "Job {job} started on {slot}[, {held}].",
    "started_local": "Job {job} started on {slot} without a slot: it is of the local universe, which the access point "
                     "runs itself.",
    "held": "Job {job} was put on hold: {why}[: {reason}]<<[: {said}][ ({named})][; {evidence}]>>.",
    "held_by_slot": "The startd had job {job} put on hold: WANT_HOLD became true[ ({values})]"
                    "<<[: {said}][ ({named})][; {evidence}]>>.",
    "held_by_policy": "Job {job} was put on hold: {name} became true[ ({values})]<<[: {said}][; {evidence}]>>.",
    "removed_by_policy": "Job {job} was removed: {name} became true[ ({values})]<<[: {said}][; {evidence}]>>.",
    "released_by_policy": "Job {job} was released: {name} became true[ ({values})]<<[: {said}][; {evidence}]>>.",
    "released": "Job {job} was released: {why}[: {reason}]<<[: {said}]>>.",
    "removed": "Job {job} was removed: {why}[: {reason}]<<[: {said}]>>.",
    "suspended": "Job {job} was suspended: {why}.",
    "continued": "Job {job} goes on: {why}.",
    "completed": "Job {job} completed: {why}.",
    "became": "Job {job} became {target}: {why}[: {reason}].",
    "edited": "Job {job} was changed: {why}<<: {changes}>>.",
    "left_queue": "Job {job} left the queue.<<[ {evidence}.]>>",
    "forgotten": "Job {job} was forgotten at once: {why}.",
    "told_to_end": "The processes of job {job} were told to end: {why}.",
    "killed": "The processes of job {job} were killed: {why}.",
    "exited": "Job {job} ended after {ran} on {slot}[, with {how}][ ({used})][; {then}]"
               "<<[ ({named})][; {evidence}]>>.",
    "evicted": "Job {job} was evicted after {ran} on {slot}[, with {how}][ ({used})][; {then}]"
               "<<[ ({named})][; {evidence}]>>.",
    "exited_because": "Job {job} ended after {ran} on {slot}: {why}[, with {how}][ ({used})][; {then}]"
                      "<<[ ({named})][; {evidence}]>>.",
    # what the answer adds to it
    "not_begun": "Its process on {slot} has not been seen to begin yet.",
    "uses": "At {when} it used {memory} of memory and {cpu} of CPU.",
    "told_at": "Its processes on {slot} were told to end at {when}, and have not ended yet.",
    "not_ended": "Its processes on {slot} have not ended yet.",
    "last_gone": "The last of its processes was gone at {when}.",
    "stays": "It stays in the queue for as long as its LeaveJobInQueue is true[; nobody has asked {yet}]"
             "<<[: {text}]>>.",
    "is_matched": "It is matched with {slot}, and has not started yet.",
    "no_cycle": "No negotiation cycle has considered it yet.",
    "others_first": "The cycles since then, the last at {when}, gave what there was to jobs before it.",
    "waits_because": "{because}<<[; {in_full}]>>.",
    "refused": "The negotiation cycle at {when} had no slot for it: {counts}"
               "<<[; {limit}][; {denied}][; {unmet}][; {conditions}]>>.",
}
_MOVED: Final = "[ ({values})]<<[; {evidence}] ({source} -> {target} by {row})>>."
_SLOTS: Final = {
    # what a slot does, by where it goes: in its own life, and in that of the job that runs on it
    "slot_suspends": "The startd suspended {job}: {why}",
    "slot_continues": "The startd let {job} continue: {why}",
    "slot_keeps": "The startd let {job} stay: {why}",
    "slot_busy": "The slot became busy: {why}",
    "slot_retires": "The startd began to retire {job}: {why}",
    "slot_vacates": "The startd told {job} to leave: {why}",
    "slot_kills": "The startd began to kill {job}: {why}",
    "slot_claim_ends": "The claim began to end: {why}",
    "slot_claimed": "The slot was claimed: {why}",
    "slot_idles": "The claim stayed without a job: {why}",
    "slot_cleans": "The slot cleans up after its job: {why}",
    "slot_passes": "The slot went to the next claim: {why}",
    "slot_matched": "The slot was matched: {why}",
    "slot_frees": "The slot became free for jobs: {why}",
    "slot_owned": "The slot went back to its owner: {why}",
    "slot_drains": "The slot began to drain: {why}",
    "slot_drained": "The slot is drained: {why}",
    "slot_benchmarks": "The slot began benchmarks: {why}",
    "slot_moved": "The slot went to {target}: {why}",
}
_OF_SLOTS: Final = {
    "born": "The slot came {origin}, as a {kind} slot[: {why}].",
    "died": "The slot ceased to be[: {why}].",
    "slot_matched_with": "The negotiator matched it with job {job}{who}.",
    "claim_made": "{who} holds it from here on.",
    "claim_waits": "{who} waits for it: {why}.",
    "claim_waits_no_more": "Nobody waits for it any more: {why}.",
    "claim_marked": "Its claim changed: {marks}<<[; {reason}]>>.",
    "holder_silent": "Nothing is heard of its claim's holder; the lease ends at {until}.",
    "holder_heard": "Its claim's holder is heard again.",
    "drain_began": "Its machine began to drain, {schedule}[ ({reason})]: {why}.",
    "drain_moved": "The drain of its machine went from {source} to {target}: {why}.",
    "machine_ends": "Its machine is to end, {how}: {why}.",
    "claim_over": "The claim of {submitter} ended, for a usage of {usage}.",
    "slot_match_void": "Its match with job {job} came to nothing: {why}.",
    "slot_job_began": "Job {job} started on it.",
    "slot_job_over": "Job {job} is over[ ({how})]: {why}.",
    "slot_job_told": "Job {job} was told to end: {why}.",
    "slot_job_killed": "Job {job} was killed: {why}.",
    "changed": "The slot has changed: {why}<<: {changes}>>.",
    "parts": "{parts} a part of it.",
}
_IMPORTED: Final = {
    # what real daemons wrote of a job
    "log_submitted": "{user} submitted it[ to {host}].",
    "log_started": "It started on {slot}[{also}].",
    "end_untold": "No record tells of the end of its run on {slot}[: {died}].",
    "log_matched": "The negotiator matched {other} with {slot}[, preempting {preempted}].",
    "log_evicted": "It was evicted from {slot}[ after {ran}][: {why}]<<[ ({moved})]>>[; {next} took its place]"
                   "[: {died}]<<[; its log says: {said}]>>.",
    "log_evicted_said": "It was evicted from {slot}[ after {ran}]; its log says: {said}.",
    "log_ended": "It ended[ after {ran}][ on {slot}], with {how}[ ({used})][{also}].",
    "log_held": "It was put on hold[, which ended its run on {slot}[ after {ran}]]: {reason}<<[ ({named})]>>[{also}].",
    "log_released": "It was released: {reason}.",
    "log_removed": "It was removed[, which ended its run on {slot}]: {reason}.",
    "log_suspended": "It was suspended[ on {slot}][: {why}]<<[ (the slot's log: {said})]>>.",
    "log_continued": "It was continued[ on {slot}][: {why}]<<[ (the slot's log: {said})]>>.",
    "shadow_gave_up": "Its shadow gave up[ after {ran}][: {died}][: {reason}]<<[: {said}]>>.",
    "shadow_lost": "Its shadow lost the connection to {slot}[: {died}][: {reason}]<<[: {said}]>>.",
    "shadow_found": "Its shadow found it again[ on {slot}].",
    "shadow_did_not_find": "Its shadow did not find it again[ after {ran}][: {died}][: {reason}]<<[: {said}]>>.",
    "nothing_for_it": "The negotiator had nothing for it[, {times}, the last time]: {reason}.",
    "shadow_began": "The access point started a shadow for it[ (pid {pid})][, for {slot}].",
    "shadow_gone": "Its shadow {did}[ after {ran}][ {number}][: {words}]"
                   "[; it went from {slot}: {why}]<<[ ({moved})]>>[; {next} took its place].",
    "run_over": "Its run on {slot} {did} after {ran}[: {why}]<<[ ({moved})]>>[; {next} took its place][: {died}].",
    "entry": "{words}[: {reason}].",
    "shown": "It was {words}[ on {host}][: {hold}]{by}.",
    "records_missing": "From here on records are missing[, until {until}]: {words}.",
    "jobs_like_it": "The negotiator gave {slots} for jobs like this one[, {times}]; {jobs} ran there.",
    "others_ran": "The negotiator matched it with {slots}[, preempting {preempted}][, {times}], where {jobs} ran.",
    "nothing_ran": "The negotiator matched it with {slots}[, preempting {preempted}][, {times}]; no record tells of a "
                   "run that followed.",
    "nothing_for_others": "The negotiator had nothing for job {other} of its cluster at {when}: {reason}.",
    "not_looked_at": "No record tells that the negotiator looked at it since then.",
    "daemon_died": "{died}.",
    "unconnected": "Since {when} nobody is connected to it.",
    "used_memory": "At {when} it used memory {memory}.",
    # of a slot
    "log_moved": "{source} -> {target} by {row}: {why}<<[ (its log: {said})]>>.",
    "log_born": "It came {origin}, as a {kind} slot.",
    "log_died": "It ceased to be.",
    "log_slot_matched": "The negotiator matched it with job {job}[ of {user}][{like}][, preempting {preempted}].",
    "log_reported": "{words}[ ({facts})].",
    "startd_began": "The startd was started<<[ ({facts})]>>.",
    "startd_ended": "The startd ended<<[ ({facts})]>>.",
    "left_out": "{count} sentences between are left out: `poolbook log {slot}` has all.",
    # of a cluster
    "ends_unknown": "Records are missing {when}: {ends} not known.",
}
_ADVICE: Final = {
    "see_analysis": "`poolbook q -better-analyze {job}` counts the slots that each of its conditions leaves.",
    "lower_request": "Ask for less and submit it again, or remove it: `poolbook rm {job}`.",
    "wait_for_cycle": "The next cycle takes it up; `poolbook q -better-analyze {job}` shows which slots fit.",
    "wait_for_start": "It starts by itself once the claim is made; `poolbook log {slot}` shows the slot's steps.",
    "see_shares": "`poolbook userprio -all` shows everybody's share; `poolbook prio` orders a user's own jobs.",
    "stop_it": "To stop it: `poolbook suspend {job}`, `poolbook hold {job}` or `poolbook rm {job}`.",
    "wait_for_continue": "It goes on when CONTINUE becomes true there; `poolbook vacate {job}` sends it elsewhere.",
    "continue_it": "`poolbook continue {job}` lets it go on.",
    "release_it": "`poolbook release {job}` lets it wait for a slot again; `poolbook rm {job}` removes it.",
    "mend_and_release": "Mend that, then `poolbook release {job}`; `poolbook rm {job}` removes it.",
    "see_failure": "Read its Out and Err, mend it and submit it again; `poolbook history -long {job}` names the files.",
    "see_history": "`poolbook history -long {job}` shows its last ad, with what it used.",
    "forget_it": "`poolbook rm -forcex {job}` forgets it without waiting for its processes.",
    "wait_for_end": "It goes once they have ended; `poolbook log {slot}` shows what the slot does.",
    "drop_from_queue": "`poolbook rm {job}` takes it out of the queue.",
    "see_owner": "It takes jobs when IS_OWNER is false there; `poolbook config -v IS_OWNER` shows who sets that.",
    "see_waiting": "It takes a job when one fits; `poolbook q -all -idle` lists those that wait.",
    "vacate_slot": "`poolbook vacate {slot}` sends the job away; `poolbook drain {machine}` empties the machine.",
    "wait_for_slot_continue": "The job goes on when CONTINUE becomes true; `poolbook vacate {slot}` sends it away.",
    "continue_slot": "`poolbook continue {job}` lets the job go on.",
    "see_slot_log": "`poolbook log {slot}` shows its steps as they come.",
    "cancel_drain": "`poolbook drain -cancel {machine}` has it take jobs again.",
    "see_status": "`poolbook status` lists the slots that there are.",
    "see_records": "Its records end at {until}; `poolbook import` reads on where the files have grown.",
    "condor_release": "In that pool, `condor_release {job}` lets it wait for a slot again. Its records end at {until}.",
    "condor_analyze": "In that pool, `condor_q -better-analyze {job}` tells what fits it. Its records end at {until}.",
    "see_life": "`poolbook why -verbose {thing}` tells the whole life, with where each record stands.",
}
# fmt: on
WORDS: Final[dict[str, str]] = {
    **_HEADS,
    **_JOBS,
    **{code: words + _MOVED for code, words in _SLOTS.items()},
    **_OF_SLOTS,
    **_IMPORTED,
    **_ADVICE,
}
"""Every code of a sentence with its words."""
ADVICE: Final = frozenset(_ADVICE)  #: the codes of what the reader can do

TELLING: Final = frozenset(
    {"slot_suspends", "slot_retires", "slot_vacates", "slot_kills", "slot_job_killed", "slot_job_over", "slot_drains",
     "slot_matched_with", "claim_waits", "drain_began", "machine_ends", "holder_silent", "slot_match_void",
     "log_slot_matched"}
)  # fmt: skip
"""The codes of a slot's steps that explain what came after them."""
_EFFECTS: Final = {
    ("Claimed/Idle", "Claimed/Busy"): "slot_busy",
    ("Claimed/Suspended", "Claimed/Busy"): "slot_continues",
    ("Claimed/Retiring", "Claimed/Busy"): "slot_keeps",
    ("Claimed/Busy", "Claimed/Idle"): "slot_idles",
    ("Claimed/Cleaning", "Claimed/Idle"): "slot_idles",
    ("Claimed/Suspended", "Claimed/Idle"): "slot_idles",
    ("Claimed/Retiring", "Claimed/Idle"): "slot_idles",
    ("Preempting/Vacating", "Claimed/Idle"): "slot_passes",
    ("Preempting/Killing", "Claimed/Idle"): "slot_passes",
}
_ARRIVALS: Final = {
    "Claimed/Suspended": "slot_suspends",
    "Claimed/Busy": "slot_busy",
    "Claimed/Retiring": "slot_retires",
    "Claimed/Idle": "slot_claimed",
    "Claimed/Cleaning": "slot_cleans",
    "Preempting/Vacating": "slot_vacates",
    "Preempting/Killing": "slot_kills",
    "Matched/Idle": "slot_matched",
    "Unclaimed/Idle": "slot_frees",
    "Unclaimed/Benchmarking": "slot_benchmarks",
    "Owner/Idle": "slot_owned",
    "Drained/Retiring": "slot_drains",
    "Owner/Retiring": "slot_drains",
    "Drained/Idle": "slot_drained",
}


_OF_JOBS: Final = frozenset({"slot_retires", "slot_vacates", "slot_kills"})  #: effects that there are on a job alone


def effect(source: str, target: str, job: str) -> str:
    """Name the sentence that tells what a transition of a slot does to the job that it has, if it has one."""
    code = _EFFECTS.get((source, target)) or _ARRIVALS.get(target, "slot_moved")
    return code if job or code not in _OF_JOBS else "slot_claim_ends"
