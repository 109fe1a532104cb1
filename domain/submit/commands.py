"""List the commands that become one attribute each: their names, the attribute, and the type of the value.

The first of an attribute's commands that has a value sets it; the attribute's own name is a command too. Source: the
manual's pages "Submit Description File Commands", one entry per command, and "Job ClassAd Attributes".
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The type of a command's value, and how it is written to the ad."""

    EXPRESSION = "an expression"
    TEXT = "a text, as it stands"
    UNQUOTED = "a text; double quotes around it are taken off"
    LIST = "texts with commas or blanks between them"
    PATH = "a path; from the job's initial directory if it is relative"
    BOOLEAN = "true or false"
    INTEGER = "an integer"
    COUNT = "an integer from 0"
    SIGNAL = "a signal, by name or number"


class Command(NamedTuple):
    attribute: str
    names: str  # in the order in which they are asked, blanks between them
    kind: Kind

    @property
    def commands(self) -> tuple[str, ...]:
        return (*self.names.split(), self.attribute.lower())


E, T, Q, L, P = Kind.EXPRESSION, Kind.TEXT, Kind.UNQUOTED, Kind.LIST, Kind.PATH
B, I, C, S = Kind.BOOLEAN, Kind.INTEGER, Kind.COUNT, Kind.SIGNAL  # noqa: E741 - the column of the table

SIMPLE: tuple[Command, ...] = (
    # Who and what
    Command("JobDescription", "description", T),
    Command("JobBatchName", "batch_name", Q),
    Command("JobBatchId", "batch_id", Q),
    Command("JobSetName", "jobset", Q),
    Command("JobPrio", "priority prio", I),
    Command("NotifyUser", "notify_user", T),
    Command("EmailAttributes", "email_attributes", L),
    Command("SubmitEventNotes", "submit_event_notes", T),
    Command("SubmitEventUserNotes", "submit_event_user_notes", T),
    Command("SubmitEventNotesAttrs", "submit_event_notes_attrs", T),
    Command("DAGNodeName", "dag_node_name", T),
    Command("DAGManJobId", "dagman_job_id", C),
    # Logs
    Command("UserLog", "log", P),
    Command("DAGManNodesLog", "dagman_log", P),
    Command("UserLogUseXML", "log_xml", B),
    Command("JobAdInformationAttrs", "job_ad_information_attrs", T),
    Command("UserLogExecuteEventAttrs", "ulog_execute_attrs", T),
    Command("JobStarterDebug", "starter_debug", Q),
    Command("JobStarterLog", "starter_log", P),
    # When it runs, how long, and what ends it
    Command("PeriodicHold", "periodic_hold", E),
    Command("PeriodicHoldReason", "periodic_hold_reason", E),
    Command("PeriodicHoldSubCode", "periodic_hold_subcode", E),
    Command("PeriodicRelease", "periodic_release", E),
    Command("PeriodicRemove", "periodic_remove", E),
    Command("PeriodicVacate", "periodic_vacate", E),
    Command("OnExitHoldReason", "on_exit_hold_reason", E),
    Command("OnExitHoldSubCode", "on_exit_hold_subcode", E),
    Command("LeaveJobInQueue", "leave_in_queue", E),
    Command("AllowedJobDuration", "allowed_job_duration", E),
    Command("AllowedExecuteDuration", "allowed_execute_duration", E),
    Command("JobLeaseDuration", "job_lease_duration", E),
    Command("JobMaxVacateTime", "job_max_vacate_time", E),
    Command("MaxJobRetirementTime", "max_job_retirement_time", E),
    Command("WantGracefulRemoval", "want_graceful_removal", E),
    Command("NextJobStartDelay", "next_job_start_delay", E),
    Command("KeepClaimIdle", "keep_claim_idle", E),
    Command("KillSig", "kill_sig", S),
    Command("RemoveKillSig", "remove_kill_sig", S),
    Command("HoldKillSig", "hold_kill_sig", S),
    Command("KillSigTimeout", "kill_sig_timeout", I),
    Command("CronMinute", "cron_minute", T),
    Command("CronHour", "cron_hour", T),
    Command("CronDayOfMonth", "cron_day_of_month", T),
    Command("CronMonth", "cron_month", T),
    Command("CronDayOfWeek", "cron_day_of_week", T),
    Command("IsNoopJob", "noop_job", E),
    Command("NoopJobExitSignal", "noop_job_exit_signal", E),
    Command("NoopJobExitCode", "noop_job_exit_code", E),
    Command("JobMaterializeMaxIdle", "max_idle materialize_max_idle", E),
    Command("JobMaterializeLimit", "max_materialize", C),
    # What it may use
    Command("CoreSize", "core_size", I),
    Command("StackSize", "stack_size", E),
    Command("RunAsOwner", "run_as_owner", B),
    Command("LoadProfile", "load_profile", B),
    Command("PrimaryUnixGroup", "primary_unix_group", T),
    Command("MountUnderScratch", "mount_under_scratch", Q),
    Command("WantIOProxy", "want_io_proxy", B),
    Command("WantJobNetworking", "want_job_networking", B),
    Command("JobMachineAttrs", "job_machine_attrs", T),
    Command("JobMachineAttrsHistoryLength", "job_machine_attrs_history_length", C),
    Command("LastMatchListLength", "match_list_length", I),
    # Its files
    Command("RemoteIwd", "remote_initialdir", T),
    Command("OutputDestination", "output_destination", T),
    Command("OutputDirectory", "output_directory", P),
    Command("TransferOutputRemaps", "transfer_output_remaps", Q),
    Command("TransferPlugins", "transfer_plugins", T),
    Command("MaxTransferInputMB", "max_transfer_input_mb", E),
    Command("MaxTransferOutputMB", "max_transfer_output_mb", E),
    Command("PreserveRelativePaths", "preserve_relative_paths", B),
    Command("EraseOutputAndErrorOnRestart", "erase_output_and_error_on_restart", B),
    Command("SkipIfDataflow", "skip_if_dataflow", B),
    Command("ManifestDesired", "manifest", B),
    Command("ManifestDir", "manifest_dir", T),
    Command("CheckpointExitCode", "checkpoint_exit_code", I),
    Command("CheckpointDestination", "checkpoint_destination", T),
    Command("TransferCheckpoint", "transfer_checkpoint_files", T),
    Command("EncryptExecuteDirectory", "encrypt_execute_directory", B),
    Command("EncryptInputFiles", "encrypt_input_files", T),
    Command("EncryptOutputFiles", "encrypt_output_files", T),
    Command("DontEncryptInputFiles", "dont_encrypt_input_files", T),
    Command("DontEncryptOutputFiles", "dont_encrypt_output_files", T),
    Command("BufferFiles", "buffer_files", E),
    Command("BufferSize", "buffer_size", E),
    Command("BufferBlockSize", "buffer_block_size", E),
    Command("FileRemaps", "file_remaps", E),
    Command("FetchFiles", "fetch_files", T),
    Command("CompressFiles", "compress_files", T),
    Command("AppendFiles", "append_files", T),
    Command("LocalFiles", "local_files", T),
)

# Every job's ad begins with these; times, owner and versions come from the facts.
BASE: tuple[tuple[str, str], ...] = (
    ("MyType", '"Job"'),
    ("TargetType", '"Machine"'),
    ("JobSubmitMethod", "0"),
    # The queue, not the submitter, says who owns a job.
    ("Owner", "undefined"),
    ("RemoteWallClockTime", "0.0"),
    ("RemoteUserCpu", "0.0"),
    ("RemoteSysCpu", "0.0"),
    ("CumulativeRemoteUserCpu", "0.0"),
    ("CumulativeRemoteSysCpu", "0.0"),
    ("ExitStatus", "0"),
    ("NumCkpts", "0"),
    ("NumJobStarts", "0"),
    ("NumJobCompletions", "0"),
    ("NumRestarts", "0"),
    ("NumSystemHolds", "0"),
    ("CommittedTime", "0"),
    ("CommittedSlotTime", "0"),
    ("CumulativeSlotTime", "0"),
    ("TotalSuspensions", "0"),
    ("LastSuspensionTime", "0"),
    ("CumulativeSuspensionTime", "0"),
    ("CommittedSuspensionTime", "0"),
    ("ExitBySignal", "false"),
    ("MinHosts", "1"),
    ("MaxHosts", "1"),
    ("CurrentHosts", "0"),
    ("LeaveJobInQueue", "false"),
    ("JobPrio", "0"),
)

# Commands of features that are not here, each with what to do instead.
REFUSED: tuple[tuple[str, str], ...] = (
    ("container_image", "containers are not supported; run the container's command as the executable of a vanilla job"),
    ("docker_image", "containers are not supported; run the container's command as the executable of a vanilla job"),
    ("grid_resource", "there are no grids; leave grid_resource out to run in this pool"),
    ("tool_daemon_cmd", "tool daemons are not supported; start the tool from the job's own script"),
)

# The universes that run here; all others are refused with a way out.
UNIVERSES = {"vanilla": 5, "5": 5, "local": 12, "12": 12}
OTHER_UNIVERSES = {
    "standard": "its checkpoints are gone from HTCondor too; let the job write its own (checkpoint_exit_code)",
    "scheduler": "universe = local runs it on this machine, outside of the slots",
    "parallel": "queue one job for each node, or let one job start them",
    "mpi": "queue one job for each node, or let one job start them",
    "java": "universe = vanilla with executable = /usr/bin/java runs it",
    "vm": "universe = vanilla with a script that starts the virtual machine runs it",
    "docker": "universe = vanilla with a script that starts the container runs it",
    "container": "universe = vanilla with a script that starts the container runs it",
    "grid": "universe = vanilla runs it in this pool",
}
