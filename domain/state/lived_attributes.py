"""The attributes of a job's ad that its life changes."""

from __future__ import annotations

_LIVED = (
    "BytesRecvd BytesSent CommittedSlotTime CommittedTime CompletionDate CpusProvisioned CumulativeRemoteSysCpu "
    "CumulativeRemoteUserCpu CumulativeSlotTime CumulativeSuspensionTime CurrentHosts DiskProvisioned DiskUsage "
    "EnteredCurrentStatus ExitBySignal ExitCode ExitReason ExitSignal ExitStatus FirstJobMatchDate "
    "GPUsProvisioned HoldReason HoldReasonCode HoldReasonSubCode ImageSize InitialJobStatus InitialWaitDuration "
    "JobCoolDownExpiration NumJobCoolDowns "
    "JobCurrentFinishTransferInputDate JobCurrentFinishTransferOutputDate JobCurrentStartTransferInputDate "
    "JobCurrentStartTransferOutputDate NumInputTransferStarts NumOutputTransferStarts TransferInFinished "
    "TransferInStarted TransferInputFileCounts TransferInputStats TransferOutFinished TransferOutStarted "
    "TransferOutputStats TransferringInput TransferringOutput "
    "JobCurrentStartDate JobCurrentStartExecutingDate JobLastStartDate JobMaterializeDate JobRunCount "
    "JobStartDate JobStatus LastHoldReason LastHoldReasonCode LastHoldReasonSubCode LastJobStatus LastMatchTime "
    "LastPublicClaimId LastReleaseReason LastRemoteHost LastRemoteWallClockTime LastSuspensionTime "
    "LastVacateTime MachineAttrCpus0 MachineAttrSlotWeight0 MemoryProvisioned MemoryUsage NumHolds "
    "NumHoldsByReason NumJobCompletions NumJobMatches NumJobStarts NumShadowStarts NumSystemHolds NumVacates "
    "NumVacatesByReason NumVacatesByReasonPreExecution NumVacatesPreExecution PublicClaimId ReleaseReason "
    "RemoteHost RemoteSysCpu RemoteUserCpu RemoteWallClockTime RemoveReason RequeueReason ResidentSetSize "
    "ShadowBday TotalSuspensions VacateReason VacateReasonCode VacateReasonSubCode "
)
LIVED = frozenset(name.lower() for name in _LIVED.split())
"""They are in small letters: all that the folds of ``job_ad`` and the decisions may set."""
