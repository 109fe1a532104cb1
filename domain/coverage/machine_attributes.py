"""The attributes of slots that HTCondor's manual lists and no slot of Poolbook has.

Source: the manual's page "Machine ClassAd Attributes".
"""

from __future__ import annotations

from functools import cache
from typing import Final

from .patterns import Names

ABILITIES: Final = (
    "CanHibernate CgroupEnforced HasContainer HasDocker HasDockerURL HasEncryptExecuteDirectory HasFileTransfer "
    "HasFileTransferPluginMethods HasJava HasJICLocalConfig HasJICLocalStdin HasJobDeferral HasJobTransferPlugins "
    "HasMPI HasPerFileEncryption HasReconnect HasRemoteSyscalls HasRotationalScratch HasSandboxImage "
    "HasSelfCheckpointTransfers HasSIF HasSingularity HasSshd HasTDP HasTransferInputRemaps HasUserNamespaces HasVM "
    "IsEnforcingDiskUsage IsWakeAble IsWakeEnabled SingularityUserNamespaces"
)
"""What a slot says that it can do. A configuration that says so of a slot here promises what nothing keeps."""

FACTS: Final = (
    "AuthenticatedIdentity AuthenticationMethod AvgTransferInputMB AvgTransferOutputMB BrokenContextAds "
    "BrokenSlotCpus BrokenSlotDisk BrokenSlotMemory ChildAccountingGroup CkptServer ClaimEndTime "
    "CleanupCategoryCounts CloudImage CloudInstanceID CloudInterruptible CloudPlatform CloudProvider CloudRegion "
    "CloudVMType CloudZone DeviceGPUsAverageUsage DeviceGPUsMemoryPeakUsage DockerCachedImageSizeMb "
    "DockerOfflineReason DockerVersion DotNetVersions IsDataSlot ExpectedMachineGracefulDrainingBadput "
    "ExpectedMachineGracefulDrainingCompletion ExpectedMachineQuickDrainingBadput "
    "ExpectedMachineQuickDrainingCompletion JavaVersion JavaVendor JavaMFlops JobBusyTimeAvg JobBusyTimeCount "
    "JobBusyTimeMax JobBusyTimeMin JobDurationAvg JobDurationCount JobDurationMax JobDurationMin JobPreemptions "
    "JobRankPreemptions JobStarts JobUserPrioPreemptions JobVM_VCPUS LvmBackingStore LvmDetectedDisk "
    "LvmIsThinProvisioning LvmNonCondorDiskUsage LvmUsingLoopback MachineLastMatchTime MaxClaimTime MonitorSelfAge "
    "MonitorSelfCPUUsage MonitorSelfImageSize MonitorSelfRegisteredSocketCount MonitorSelfResidentSetSize "
    "MonitorSelfSecuritySessions MonitorSelfTime OfflineUniverses PslotRollupInformation RecentJobBusyTimeAvg "
    "RecentJobBusyTimeCount RecentJobBusyTimeMax RecentJobBusyTimeMin RecentJobDurationAvg RecentJobDurationCount "
    "RecentJobDurationMax RecentJobDurationMin RecentJobPreemptions RecentJobRankPreemptions RecentJobStarts "
    "RecentJobUserPrioPreemptions RemoteProject RemoteScheddName RetirementTimeRemaining SingularityVersion "
    "SlotBrokenCode SlotBrokenReason StartdIpAddr TotalTransferInputMB TotalTransferOutputMB Unhibernate "
    "UpdatesHistory UpdatesLost UpdatesSequenced UpdatesTotal VMOfflineReason VMOfflineTime VM_AvailNum VM_Guest_Mem "
    "VM_Memory VM_Networking VM_Type WindowsBuildNumber WindowsMajorVersion WindowsMinorVersion"
)


@cache
def _abilities() -> frozenset[str]:
    return frozenset(ABILITIES.lower().split())


@cache
def _unadvertised() -> Names[str]:
    return Names.of((name, name) for name in f"{ABILITIES} {FACTS}".split())


def unadvertised(name: str) -> str | None:
    """An attribute that no slot here has, as HTCondor spells it; None: it is none of those."""
    return _unadvertised().get(name)


def ability(name: str) -> bool:
    """Whether an attribute says of a slot that it can do something which no slot here can."""
    return name.lower() in _abilities()
