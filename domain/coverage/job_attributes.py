"""The attributes of jobs that submit commands make and nothing here acts on yet.

* ``IDLE``: a job runs otherwise than its owner asked for, or somewhere else, or its results end up elsewhere.
* ``UNNOTICED``: what HTCondor does beside the job is not done; the job and its results are the same.

A command is told where it gives an attribute another value than the one that stands beside it: the value of a job that
does not ask for anything. All other attributes that submit commands make are acted on, or are for people to read.

Source: the manual's pages "Submit Description File Commands" and "Job ClassAd Attributes".
"""

from __future__ import annotations

from typing import Final

IDLE: Final[dict[str, str]] = {
    # attribute: its text where nothing is asked for (empty: it is not in the ad)
    "AllowedJobDuration": "",
    "CheckpointDestination": "",
    "CheckpointExitCode": "",
    "ConcurrencyLimits": "",
    "CoreSize": "",
    "CronDayOfMonth": "",
    "CronDayOfWeek": "",
    "CronHour": "",
    "CronMinute": "",
    "CronMonth": "",
    "DeferralPrepTime": "300",
    "DeferralTime": "",
    "DeferralWindow": "0",
    "DontEncryptInputFiles": "",
    "DontEncryptOutputFiles": "",
    "EncryptExecuteDirectory": "false",
    "EncryptInputFiles": "",
    "EncryptOutputFiles": "",
    "EraseOutputAndErrorOnRestart": "true",
    "IsNoopJob": "false",
    "JobMaterializeLimit": "",
    "JobMaterializeMaxIdle": "",
    "ManifestDesired": "false",
    "ManifestDir": "",
    "MaxTransferInputMB": "",
    "MaxTransferOutputMB": "",
    "MountUnderScratch": "",
    "NextJobStartDelay": "0",
    "NoopJobExitCode": "",
    "NoopJobExitSignal": "",
    "OutputDestination": "",
    "OutputDirectory": "",
    "PeriodicHold": "false",
    "PeriodicHoldReason": "",
    "PeriodicHoldSubCode": "",
    "PeriodicRelease": "false",
    "PeriodicRemove": "false",
    "PeriodicVacate": "false",
    "PreserveRelativePaths": "false",
    "PrimaryUnixGroup": "",
    "RemoteIwd": "",
    "RunAsOwner": "true",
    "SkipIfDataflow": "false",
    "StackSize": "0",
    "StreamErr": "false",
    "StreamIn": "false",
    "StreamOut": "false",
    "TransferCheckpoint": "",
    "TransferInput": "",
    "TransferOutput": "",
    "TransferOutputRemaps": "",
    "TransferPlugins": "",
    "WantGracefulRemoval": "false",
    "WantIOProxy": "false",
    "WantJobNetworking": "false",
}

UNNOTICED: Final[dict[str, str]] = {
    "AppendFiles": "",
    "BufferBlockSize": "",
    "BufferFiles": "",
    "BufferSize": "",
    "CompressFiles": "",
    "DAGManNodesLog": "",
    "EmailAttributes": "",
    "FetchFiles": "",
    "FileRemaps": "",
    "JobAdInformationAttrs": "",
    "JobMachineAttrs": "",
    "JobMachineAttrsHistoryLength": "",
    "JobNotification": "0",
    "JobSetName": "",
    "JobStarterDebug": "",
    "JobStarterLog": "",
    "KeepClaimIdle": "",
    "LastMatchListLength": "",
    "LoadProfile": "false",
    "LocalFiles": "",
    "NotifyUser": "",
    "SubmitEventNotesAttrs": "",
    "UserLogExecuteEventAttrs": "",
    "UserLogUseXML": "false",
}

CHOICES: Final[dict[str, frozenset[str]]] = {
    # attribute: the texts that ask for nothing but what is done here
    "ShouldTransferFiles": frozenset({'"IF_NEEDED"', '"NO"'}),
    "WhenToTransferOutput": frozenset({'"ON_EXIT"', '"NEVER"'}),
}
"""Attributes of which some values are followed: a job runs where its files are, and leaves its results there."""

LANGUAGE: Final = frozenset(
    {
        "allow_arguments_v1",
        "allow_environment_v1",
        "dag_status",
        "failed_count",
        "job",
        "retry",
        "machine_count",
        "node_count",
    }
)
"""Commands that HTCondor's own parser reads and that ask for nothing where there are neither DAGs nor parallel jobs."""

COMMANDS: Final = frozenset(
    {
        "send_credential",
        "skip_filechecks",
        "use_oauth_services",
        "use_scitoken",
        "use_scitokens",
        "scitokens_file",
        "use_x509userproxy",
        "x509userproxy",
        "submit_fail_empty_fields",
        "submit_fail_empty_matches",
        "submit_warn_duplicate_matches",
        "submit_warn_empty_fields",
        "submit_warn_empty_matches",
        "submitfailemptyfields",
        "submitfailemptymatches",
        "submitwarnduplicatematches",
        "submitwarnemptyfields",
        "submitwarnemptymatches",
    }
)
"""Commands that condor_submit reads itself, and that make no attribute here."""

OTHER_COMMANDS: Final = (
    "arc_application arc_data_staging arc_resources arc_rte aws_<name> azure_<name> batch_extra_submit_args "
    "batch_project batch_queue batch_runtime cloud_label_names cloud_label_<name> container_is_common "
    "container_service_names container_target_dir <service-name>_container_port <service-name>_HostPort cuda_version "
    "delegate_job_GSI_credentials_lifetime docker_network_type docker_override_entrypoint docker_pull_policy "
    "ec2_<name> gce_<name> gs_access_key_id_file gs_secret_access_key_file jar_files java_vm_args public_input_files "
    "rendezvousdir retry_request_disk retry_request_memory retry_request_memory_increase retry_request_memory_max "
    "s3_access_key_id_file s3_secret_access_key_file transfer_container vm_checkpoint vm_disk vm_macaddr vm_memory "
    "vm_networking vm_networking_type vm_no_output_vm vm_type WantNameTag xen_initrd xen_kernel xen_kernel_params "
    "xen_root <credential_service_name>_oauth_permissions <credential_service_name>_oauth_resource"
)
"""Commands of HTCondor's manual that are about what is not here: grids, clouds, containers, virtual machines."""
