"""The attributes of a job's ad that Poolbook changes while the job is in the queue."""

from __future__ import annotations

_RUNTIME_NAMES = (
    "AssignedGPUs GPUsAverageUsage GPUsMemoryUsage "
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
    "ScratchDirFileCount SpooledOutputFiles StderrMtime StdoutMtime "
    "ShadowBday TotalSuspensions VacateReason VacateReasonCode VacateReasonSubCode "
)
RUNTIME_ATTRIBUTES = frozenset(name.lower() for name in _RUNTIME_NAMES.split())
"""All attributes that the folds of ``job_ad`` and decisions may set, in small letters."""
