"""HTCondor 25's codes for why a job is held (HoldReasonCode) or was evicted (VacateReasonCode).

* Both are one series: codes from 1000 on send a job back to Idle, lower ones hold it. So the code of an eviction tells
  where the job goes, unless its subcode says otherwise (``goes_on_hold``).
* A code's name is its label in the job's NumHoldsByReason and NumVacatesByReason.
* A code keeps its meaning: those that HTCondor no longer uses stay, for old logs.

Places: the manual's pages "Hold Reason Codes" and "Vacate Reason Codes"; for the codes that they leave out (0, 2, 28 to
31, 49, 1037) HTCondor's header condor_holdcodes.h.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Code(NamedTuple):
    number: int
    name: str
    words: str
    subcode: str = ""
    """The meaning of the subcode, where the code has one of its own."""


FIRST_VACATE_CODE: Final = 1000
"""The first code that means: try again elsewhere."""
_ERRNO: Final = "the operating system's error number"

# fmt: off
_HOLD: Final = (
    Code(1, "UserRequest", "somebody asked for it to be held"),
    Code(2, "GlobusGramError", "Globus reported an error", "the GRAM error number"),
    Code(3, "JobPolicy", "its own policy (periodic_hold, on_exit_hold) was true", "what the job says"),
    Code(4, "CorruptedCredential", "its credentials are not valid"),
    Code(5, "JobPolicyUndefined", "its own policy was undefined"),
    Code(6, "FailedToCreateProcess", "its executable could not be started", _ERRNO),
    Code(7, "UnableToOpenOutput", "its standard output could not be opened", _ERRNO),
    Code(8, "UnableToOpenInput", "its standard input could not be opened", _ERRNO),
    Code(9, "UnableToOpenOutputStream", "the stream of its standard output could not be opened", _ERRNO),
    Code(10, "UnableToOpenInputStream", "the stream of its standard input could not be opened", _ERRNO),
    Code(11, "InvalidTransferAck", "the file transfer's protocol failed (acknowledgement)"),
    Code(12, "TransferOutputError", "its output files could not be transferred",
         _ERRNO + ", 62 for a plug-in that ran out of time, or the plug-in's exit code times 256"),
    Code(13, "TransferInputError", "its input files could not be transferred",
         _ERRNO + ", 62 for a plug-in that ran out of time, or the plug-in's exit code times 256"),
    Code(14, "IwdError", "its initial directory cannot be used", _ERRNO),
    Code(15, "SubmittedOnHold", "it was submitted on hold"),
    Code(16, "SpoolingInput", "its input files are still on their way to the access point"),
    Code(17, "JobShadowMismatch", "a standard universe job does not fit the access point's shadow"),
    Code(18, "InvalidTransferGoAhead", "the file transfer's protocol failed (permission to begin)"),
    Code(19, "HookPrepareJobFailure", "the hook that prepares the job failed",
         "the hook's exit code, its signal as a negative number, or 0 if it could not run"),
    Code(20, "MissedDeferredExecutionTime", "the time for which its start was deferred went by"),
    Code(21, "StartdHeldJob", "the slot's policy (WANT_HOLD) was true", "what WANT_HOLD_SUBCODE says"),
    Code(22, "UnableToInitUserLog", "its event log could not be opened"),
    Code(23, "FailedToAccessUserAccount", "its user's account cannot be used"),
    Code(24, "NoCompatibleShadow", "the access point has no shadow that can run it"),
    Code(25, "InvalidCronSettings", "its cron_ settings make no sense"),
    Code(26, "SystemPolicy", "the access point's policy (SYSTEM_PERIODIC_HOLD) was true",
         "what the administrator says"),
    Code(27, "SystemPolicyUndefined", "the access point's policy was undefined"),
    Code(28, "GlexecChownSandboxToUser", "glexec could not give the sandbox to the user"),
    Code(29, "PrivsepChownSandboxToUser", "privilege separation could not give the sandbox to the user"),
    Code(30, "GlexecChownSandboxToCondor", "glexec could not take the sandbox back"),
    Code(31, "PrivsepChownSandboxToCondor", "privilege separation could not take the sandbox back"),
    Code(32, "MaxTransferInputSizeExceeded", "its input is larger than MAX_TRANSFER_INPUT_MB"),
    Code(33, "MaxTransferOutputSizeExceeded", "its output is larger than MAX_TRANSFER_OUTPUT_MB"),
    Code(34, "JobOutOfResources", "it used more than the slot gave it", "102 memory, 104 disk"),
    Code(35, "InvalidDockerImage", "its Docker image is not valid"),
    Code(36, "FailedToCheckpoint", "it failed when told to checkpoint"),
    Code(37, "EC2UserError", "EC2: the user's mistake", "which step"),
    Code(38, "EC2InternalError", "EC2: an internal error", "which step"),
    Code(39, "EC2AdminError", "EC2: the administrator's mistake", "which step"),
    Code(40, "EC2ConnectionProblem", "EC2: the connection failed", "which step"),
    Code(41, "EC2ServerError", "EC2: the server's mistake", "which step"),
    Code(42, "EC2InstancePotentiallyLostError", "EC2: an instance may be lost", "which step"),
    Code(43, "PreScriptFailed", "the script before it failed"),
    Code(44, "PostScriptFailed", "the script after it failed"),
    Code(45, "SingularityTestFailed", "the test of Singularity before it failed"),
    Code(46, "JobDurationExceeded", "it took longer than allowed_job_duration"),
    Code(47, "JobExecuteExceeded", "it executed longer than allowed_execute_duration"),
    Code(48, "HookShadowPrepareJobFailure", "the hook that prepares it at the access point asked for the hold"),
    Code(49, "CannotSwitchPrimaryGroup", "its process could not be given the primary group that it asked for"),
)

_VACATE: Final = (
    Code(1000, "JobPolicyVacate", "its own policy (periodic_vacate) was true"),
    Code(1001, "SystemPolicyVacate", "the access point's policy (SYSTEM_PERIODIC_VACATE) was true"),
    Code(1002, "ShadowException", "the shadow failed"),
    Code(1003, "JobNotStarted", "a step before its start failed", "which step"),
    Code(1004, "UserVacateJob", "somebody asked for it to be vacated"),
    Code(1005, "JobShouldRequeue", "an error that nobody named"),
    Code(1006, "FailedToActivateClaim", "the claim could not be activated"),
    Code(1007, "StarterError", "the starter failed"),
    Code(1008, "ReconnectFailed", "the connection broke and could not be made again"),
    Code(1009, "ClaimDeactivated", "the access point deactivated the claim"),
    Code(1010, "StartdVacateCommand", "the machine's administrator asked for the slot to be vacated"),
    Code(1011, "StartdPreemptExpression", "the slot's PREEMPT was true"),
    Code(1012, "StartdException", "the startd failed"),
    Code(1013, "StartdShutdown", "the startd was shut down"),
    Code(1014, "StartdDraining", "the machine was drained"),
    Code(1015, "StartdCoalesce", "the slot was joined with others (condor_now)"),
    Code(1016, "StartdHibernate", "the machine went to sleep"),
    Code(1017, "StartdReleaseCommand", "the access point released the claim"),
    Code(1018, "StartdPreemptingClaimRank", "the slot was claimed for a job that it ranks higher"),
    Code(1019, "StartdPreemptingClaimUserPrio", "the slot was claimed for a user with a better priority"),
    Code(1020, "VMError", "the virtual machine's software failed"),
    Code(1021, "ContainerError", "the container's software failed"),
    Code(1022, "ScheddVacate", "the access point vacated it"),
    Code(1023, "JobRemoved", "it was removed", "1 if its output was to be transferred first"),
    Code(1024, "ScratchDirError", "its scratch directory failed"),
    Code(1025, "SuccessfulCheckpoint", "it checkpointed, and its claim could not be activated again"),
    Code(1026, "ActivationRefusedBadRequest", "activation refused: the request lacks something"),
    Code(1027, "ActivationRefusedNoMatch", "activation refused: job and slot do not match"),
    Code(1028, "ActivationRefusedStillCleaning", "activation refused: the last job is still being cleaned up"),
    Code(1029, "ActivationRefusedWorklifeExpired", "activation refused: CLAIM_WORKLIFE has passed"),
    Code(1030, "ActivationRefusedPreempted", "activation refused: the claim is being preempted"),
    Code(1031, "ActivationRefusedBroken", "activation refused: the slot is broken"),
    Code(1032, "ActivationRefusedNotIdle", "activation refused: the slot is not idle"),
    Code(1033, "ActivationRefusedUnclaimed", "activation refused: the slot is not claimed"),
    Code(1034, "ActivationRefusedClaimNotFound", "activation refused: there is no such claim"),
    Code(1035, "ActivationRefusedOldClaim", "activation refused: the claim is over"),
    Code(1036, "ActivationRefusedUnhealthy", "activation refused: the slot failed a check of its health"),
    Code(1037, "StartdRehoming", "the startd is moving to another access point"),
)
# fmt: on

UNSPECIFIED: Final = Code(0, "Unspecified", "nobody said why")

HOLD_CODES: Final[dict[int, Code]] = {code.number: code for code in (UNSPECIFIED, *_HOLD)}
VACATE_CODES: Final[dict[int, Code]] = {code.number: code for code in _VACATE}


def goes_on_hold(code: int, subcode: int = 0) -> bool:
    """Tell whether a job that failed with this code is held; else it is evicted, and tried again.

    A code from 1 to 999 holds, any other does not; a subcode of -1000 or less makes it an eviction whatever the code.
    Manual: "Managing a Job", The Job Lifecycle.
    """
    return 0 < code < FIRST_VACATE_CODE and subcode > -FIRST_VACATE_CODE
