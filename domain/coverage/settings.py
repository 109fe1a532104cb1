"""The settings of HTCondor's configuration: who follows which here, and what the others would do.

* ``FOLLOWED``: a setting has the effect that HTCondor's manual gives it.
* ``MACROS``: a name that HTCondor's defaults define for use as ``$(NAME)``; no daemon asks for it.
* ``UNENFORCED``: a setting that keeps something out, which Poolbook cannot keep out yet: no pool starts under one.
* All others that HTCondor knows are not followed. ``SUBJECTS`` says what each of them is about.

Source: the manual's page "Configuration Macros" (admin-manual/configuration/), the subject by the page's sections.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from .patterns import Names

FOLLOWED: Final[tuple[tuple[str, str], ...]] = (
    # who follows them, and the names
    (
        "the reading of a configuration",
        "LOCAL_CONFIG_FILE LOCAL_CONFIG_DIR LOCAL_CONFIG_DIR_EXCLUDE_REGEXP REQUIRE_LOCAL_CONFIG_FILE "
        "COUNT_HYPERTHREAD_CPUS DETECTED_CPUS_LIMIT AUTO_USE_<CATEGORY>_<NAME> CONDOR_VERSION",
    ),
    (
        "the startd's policy",
        "START RANK SUSPEND CONTINUE PREEMPT KILL WANT_SUSPEND WANT_VACATE WANT_HOLD WANT_HOLD_REASON "
        "WANT_HOLD_SUBCODE SUSPEND_VANILLA CONTINUE_VANILLA PREEMPT_VANILLA KILL_VANILLA WANT_SUSPEND_VANILLA "
        "WANT_VACATE_VANILLA WANT_HOLD_VANILLA WANT_HOLD_REASON_VANILLA WANT_HOLD_SUBCODE_VANILLA "
        "MaxJobRetirementTime_VANILLA IS_OWNER IsOwner RUNBENCHMARKS CLAIM_WORKLIFE MaxJobRetirementTime "
        "MachineMaxVacateTime CpuBusy CPU_BUSY SLOT_WEIGHT SlotWeight WithinResourceLimits POLLING_INTERVAL "
        "UPDATE_INTERVAL MATCH_TIMEOUT KILLING_TIMEOUT ALIVE_INTERVAL MAX_CLAIM_ALIVES_MISSED "
        "MAX_DRAINING_ACTIVATION_DELAY DEFAULT_DRAINING_START_EXPR",
    ),
    (
        "the startd's slots",
        "NUM_CPUS NUM_SLOTS NUM_SLOTS_TYPE_<N> SLOT_TYPE_<N> SLOT_TYPE_<N>_PARTITIONABLE SLOT_TYPE_<N>_NAME_PREFIX "
        "SLOT_TYPE_<N>_BACKFILL MAX_SLOT_TYPES STARTD_RESOURCE_PREFIX MEMORY RESERVED_MEMORY DISK RESERVED_DISK "
        "STARTD_ATTRS SLOT<N>_STARTD_ATTRS STARTD_SLOT_ATTRS STARTD_LATCH_EXPRS "
        "MACHINE_RESOURCE_<name> MACHINE_RESOURCE_NAMES MACHINE_RESOURCE_INVENTORY_<name> "
        "OFFLINE_MACHINE_RESOURCE_<name> STARTD_DETECT_GPUS CONSUMPTION_POLICY CONSUMPTION_<Resource> "
        "MODIFY_REQUEST_EXPR_REQUESTCPUS MODIFY_REQUEST_EXPR_REQUESTMEMORY MODIFY_REQUEST_EXPR_REQUESTDISK "
        "MUST_MODIFY_REQUEST_EXPRS",
    ),
    (
        "the startd's sensors",
        "SLOTS_CONNECTED_TO_KEYBOARD SLOTS_CONNECTED_TO_CONSOLE DISCONNECTED_KEYBOARD_IDLE_BOOST CONSOLE_DEVICES "
        "STARTD_HAS_BAD_UTMP STARTD_CRON_JOBLIST STARTD_CRON_<JobName>_MODE STARTD_CRON_<JobName>_EXECUTABLE "
        "STARTD_CRON_<JobName>_ARGS STARTD_CRON_<JobName>_ENV STARTD_CRON_<JobName>_PERIOD "
        "STARTD_CRON_<JobName>_PREFIX STARTD_CRON_<JobName>_KILL STARTD_CRON_<JobName>_CWD",
    ),
    ("the starter", "EXECUTE SLOT<N>_EXECUTE JOB_RENICE_INCREMENT"),
    ("whose users and files are whose", "UID_DOMAIN FILESYSTEM_DOMAIN"),
    (
        "the negotiator",
        "NEGOTIATOR_INTERVAL NEGOTIATOR_CYCLE_DELAY NEGOTIATOR_MIN_INTERVAL PRIORITY_HALFLIFE DEFAULT_PRIO_FACTOR "
        "NICE_USER_PRIO_FACTOR REMOTE_PRIO_FACTOR ACCOUNTANT_LOCAL_DOMAIN NEGOTIATOR_CONSIDER_PREEMPTION "
        "NEGOTIATOR_CONSIDER_EARLY_PREEMPTION NEGOTIATOR_USE_SLOT_WEIGHTS NEGOTIATOR_IGNORE_USER_PRIORITIES "
        "NEGOTIATOR_CROSS_SLOT_PRIOS NEGOTIATE_ALL_JOBS_IN_CLUSTER SIGNIFICANT_ATTRIBUTES ADD_SIGNIFICANT_ATTRIBUTES "
        "REMOVE_SIGNIFICANT_ATTRIBUTES NEGOTIATOR_SLOT_CONSTRAINT NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT "
        "NEGOTIATOR_JOB_CONSTRAINT NEGOTIATOR_PRE_JOB_RANK NEGOTIATOR_POST_JOB_RANK PREEMPTION_REQUIREMENTS "
        "PREEMPTION_REQUIREMENTS_STABLE PREEMPTION_RANK PREEMPTION_RANK_STABLE SCHEDD_ENABLE_PER_USER_MATCH_LIMITS "
        "MAX_CONCURRENT_UPLOADS_PER_USER GROUP_NAMES GROUP_PRIO_FACTOR_<groupname>",
    ),
    (
        "condor_submit",
        "APPEND_RANK APPEND_RANK_VANILLA APPEND_REQUIREMENTS APPEND_REQ_VANILLA DEFAULT_JOB_MAX_RETRIES DEFAULT_RANK "
        "DEFAULT_RANK_VANILLA DEFAULT_UNIVERSE ENABLE_DEPRECATION_WARNINGS JOB_DEFAULT_LEASE_DURATION "
        "JOB_DEFAULT_REQUESTCPUS JOB_DEFAULT_REQUESTDISK JOB_DEFAULT_REQUESTGPUS "
        "JOB_DEFAULT_REQUESTMEMORY NICE_USER_ACCOUNTING_GROUP_NAME SCHEDD_INTERVAL SUBMIT_ALLOW_GETENV "
        "SUBMIT_DEFAULT_SHOULD_TRANSFER_FILES SUBMIT_PREVENT_MULTI_QUEUE SUBMIT_REQUEST_MISSING_UNITS",
    ),
)

_MACROS: Final = (
    "ActivityTimer BackgroundLoad BenchmarkTimer BigJob BIN ContinueIdleTime DETECTED_CORES DETECTED_CPUS "
    "DETECTED_MEMORY DETECTED_PHYSICAL_CPUS DOLLAR ETC HighLoad HOUR INCLUDE IsCollector IsMaster IsMPI IsNegotiator "
    "IsSchedd IsShadow IsStandard IsStartd IsStarter IsSubmit IsTool IsVanilla IsVM IsWindows LIB LIBEXEC OPSYSLEGACY "
    "OPSYSLONGNAME OPSYSMAJORVER OPSYSNAME OPSYSSHORTNAME OPSYSVER UTSNAME_MACHINE UTSNAME_NODENAME UTSNAME_RELEASE "
    "UTSNAME_SYSNAME UTSNAME_VERSION LOCAL_DIR MaxSuspendTime MaxVacateTime MediumJob MINUTE MPI RELEASE_DIR RUN SBIN "
    "SmallJob STANDARD StartIdleTime StateTimer TEMP_DIR TMP_DIR VANILLA VM"
)
MACROS: Final = frozenset(_MACROS.lower().split())

UNENFORCED: Final[tuple[tuple[str, str], ...]] = (
    # the names, and what they are part of
    ("SUBMIT_REQUIREMENT_<Name>", "submit requirements"),
    ("JOB_TRANSFORM_<Name>", "job transforms"),
    ("GROUP_QUOTA_<groupname> GROUP_QUOTA_DYNAMIC_<groupname>", "group quotas"),
    ("CONCURRENCY_LIMIT_DEFAULT CONCURRENCY_LIMIT_DEFAULT_<NAME>", "concurrency limits"),
    (
        "MAX_JOBS_SUBMITTED MAX_JOBS_PER_OWNER MAX_JOBS_PER_SUBMISSION MAX_JOBS_RUNNING "
        "MAX_MATERIALIZED_JOBS_PER_CLUSTER MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER",
        "limits of the queue",
    ),
    (
        "CLASSAD_USER_MAPFILE_<name> CLASSAD_USER_MAPDATA_<name> <SUBSYS>_CLASSAD_USER_MAP_NAMES "
        "CLASSAD_USER_MAP_NAMES",
        "user maps",
    ),
)
QUOTA_SETTINGS: Final = frozenset({"group_quota_max_allocation_rounds", "group_quota_round_robin_rate"})
"""Settings that are called like the quota of a group, and are none."""
LIMIT_SUFFIX: Final = "_limit"
"""``<NAME>_LIMIT`` is the concurrency limit of a resource that the site names, if HTCondor has no such setting."""
LIMITED: Final = "concurrency limits"

SUBJECTS: Final[tuple[tuple[str, str], ...]] = (
    # the names, and what HTCondor does by them; the first row that has a name counts
    ("JOB_DEFAULT_NOTIFICATION MAIL MAIL_FROM SENDMAIL SMTP_SERVER EMAIL_<setting>", "mail: none is sent yet"),
    ("SYSTEM_PERIODIC_<policy> SYSTEM_MAX_RELEASES PERIODIC_EXPR_INTERVAL PERIODIC_EXPR_TIMESLICE "
     "MAX_PERIODIC_EXPR_INTERVAL SYSTEM_ON_VACATE_COOL_DOWN", "the schedd's policy for jobs"),
    ("IMMUTABLE_JOB_ATTRS PROTECTED_JOB_ATTRS SECURE_JOB_ATTRS SYSTEM_IMMUTABLE_JOB_ATTRS SYSTEM_PROTECTED_JOB_ATTRS "
     "SYSTEM_SECURE_JOB_ATTRS IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS", "attributes of jobs that users may not change"),
    ("GROUP_<setting> NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION NEGOTIATOR_USE_WEIGHTED_DEMAND", "group quotas"),
    ("ENABLE_BACKFILL START_BACKFILL EVICT_BACKFILL BACKFILL BACKFILL_SYSTEM BOINC_<setting>", "backfill"),
    ("ALLOW_PSLOT_PREEMPTION", "preempting dynamic slots for a partitionable one"),
    ("DEFRAG DEFRAG_<setting>", "condor_defrag"),
    ("GANGLIAD GANGLIAD_<setting> GANGLIA_<setting> METRICD_<setting> PROMETHEUS_<setting>", "metrics for monitoring"),
    ("ADSTASH_<setting>", "condor_adstash"),
    ("FLOCK_<setting> MIN_FLOCK_LEVEL", "flocking to other pools"),
    ("HAD HAD_<setting> HA_<setting> REPLICATION REPLICATION_<setting> TRANSFERER TRANSFERER_<setting> STATE_FILE "
     "MASTER_HA_LIST MASTER_HAD_<setting>", "a second central manager"),
    ("CLASSAD_LIFETIME ABSENT_<setting> EXPIRE_INVALIDATED_ADS OFFLINE_EXPIRE_ADS_AFTER COLLECTOR_PERSISTENT_AD_LOG",
     "ads that the collector keeps of machines that are gone"),
    ("POOL_HISTORY_<setting> KEEP_POOL_HISTORY CONDOR_VIEW_<setting> VIEW_SERVER VIEW_SERVER_<setting> "
     "UPDATE_VIEW_COLLECTOR_WITH_TCP", "the HTCondorView server"),
    ("COLLECTOR COLLECTOR_<setting> CONDOR_HOST DEAD_COLLECTOR_MAX_AVOIDANCE_TIME MONITOR_<setting> "
     "USE_COLLECTOR_HOST_CNAME TCP_UPDATE_COLLECTORS UPDATE_COLLECTOR_WITH_TCP", "a collector of its own"),
    ("DAEMON_LIST DC_DAEMON_LIST MASTER MASTER_<setting> START_MASTER START_DAEMONS <daemon>_ARGS <daemon>_ENVIRONMENT "
     "<SUBSYS>_USERID DAEMON_SHUTDOWN DAEMON_SHUTDOWN_FAST PREEN PREEN_<setting> "
     "NOT_RESPONDING_TIMEOUT <SUBSYS>_NOT_RESPONDING_TIMEOUT NOT_RESPONDING_WANT_CORE SHUTDOWN_FAST_TIMEOUT "
     "SHUTDOWN_GRACEFUL_TIMEOUT PUBLISH_OBITUARIES OBITUARY_LOG_LENGTH",
     "daemons of their own: one process has all roles here"),
    ("<SUBSYS>_DEBUG ALL_DEBUG TOOL_DEBUG <SUBSYS>_LOG MAX_<SUBSYS>_LOG MAX_NUM_<SUBSYS>_LOG <SUBSYS>_LOG_<setting> "
     "TRUNC_<SUBSYS>_LOG_ON_OPEN LOG LOGS_USE_TIMESTAMP LOG_TO_SYSLOG DEBUG_TIME_FORMAT TOUCH_LOG_INTERVAL "
     "<SUBSYS>_LOCK <SUBSYS>_DEBUG_WAIT LOCK LOCK_<setting> FILE_LOCK_VIA_MUTEX", "the daemons' log files"),
    ("EVENT_LOG EVENT_LOG_<setting> MAX_EVENT_LOG", "the pool's event log file"),
    ("HISTORY HISTORY_<setting> MAX_HISTORY_<setting> ENABLE_HISTORY_ROTATION ROTATE_HISTORY_<setting> "
     "PER_JOB_HISTORY_DIR STARTD_HISTORY JOB_EPOCH_HISTORY JOB_EPOCH_HISTORY_DIR MAX_EPOCH_HISTORY_<setting>",
     "history files: the log is the history here"),
    ("SPOOL JOB_QUEUE_LOG <SUBSYS>_JOB_QUEUE_LOG_<setting> MAX_JOB_QUEUE_LOG_ROTATIONS ACCOUNTANT_DATABASE_FILE "
     "MAX_ACCOUNTANT_DATABASE_SIZE SCHEDD_BACKUP_SPOOL VALID_SPOOL_FILES SYSTEM_VALID_SPOOL_FILES ALTERNATE_JOB_SPOOL "
     "JOB_SPOOL_PERMISSIONS CHOWN_JOB_SPOOL_FILES", "the daemons' spool: the log is kept where -log says"),
    ("SEC_<setting> ALLOW_<LEVEL> DENY_<LEVEL> AUTH_<setting> SSL_<setting> KERBEROS_<setting> CERTIFICATE_MAPFILE "
     "CERTIFICATE_MAPFILE_ASSUME_HASH_KEYS USER_MAPFILE TRUST_<setting> SETTABLE_ATTRS_<LEVEL> HOST_ALIAS FS_<setting> "
     "BOOTSTRAP_SSL_<setting> DISABLE_AUTHENTICATION_IP_CHECK LEGACY_ALLOW_SEMANTICS TOKENS_DATABASE PASSWD_<setting> "
     "QUEUE_ALL_USERS_TRUSTED QUEUE_SUPER_USER_MAY_IMPERSONATE", "access over the network: there is none here"),
    ("QUEUE_SUPER_USERS", "who may act on everybody's jobs: `serve -set QUEUE_SUPER_USERS=...` says so for a new log"),
    ("CRED_<setting> CREDD CREDD_<setting> CREDMON_<setting> OAUTH2_<setting> LOCAL_CREDMON_<setting> "
     "VAULT_<setting> PELICAN_<setting> <service>_AUTHORIZATION_URL <service>_TOKEN_URL <service>_CLIENT_ID "
     "<service>_CLIENT_SECRET_FILE <service>_RETURN_URL_SUFFIX TRUSTED_VAULT_HOSTS DELEGATE_<setting>", "credentials"),
    ("NETWORK_<setting> BIND_ALL_INTERFACES ENABLE_IPV4 ENABLE_IPV6 PREFER_<setting> TCP_<setting> UDP_<setting> "
     "HIGHPORT LOWPORT IN_HIGHPORT IN_LOWPORT OUT_HIGHPORT OUT_LOWPORT CCB_<setting> SHARED_PORT SHARED_PORT_<setting> "
     "USE_SHARED_PORT PRIVATE_NETWORK_<setting> NO_DNS DEFAULT_DOMAIN_NAME DNS_CACHE_REFRESH USE_OUTBOUND_CCB "
     "OUTBOUND_CCB_ADDRESS DAEMON_SOCKET_DIR", "the network"),
    ("FILETRANSFER_<setting> FILE_TRANSFER_<setting> ENABLE_URL_TRANSFERS MAX_TRANSFER_<setting> "
     "MAX_CONCURRENT_UPLOADS MAX_CONCURRENT_DOWNLOADS MAX_FILE_TRANSFER_PLUGIN_LIFETIME TRANSFER_<setting> "
     "ENABLE_HTTP_PUBLIC_FILES HTTP_PUBLIC_<setting>", "file transfer"),
    ("CHECKPOINT_<setting> PERIODIC_CHECKPOINT MAX_CHECKPOINT_CLEANUP_PROCS DEFAULT_NUM_EXTRA_CHECKPOINTS",
     "checkpoints"),
    ("DOCKER DOCKER_<setting> SINGULARITY SINGULARITY_<setting> CONTAINER_<setting> DEFAULT_CONTAINER_IMAGE "
     "USE_DEFAULT_CONTAINER", "containers"),
    ("VM_<setting> XEN_<setting> LIBVIRT_<setting> JAVA JAVA_<setting> MPI_<setting> OPENMPI_<setting>",
     "universes that do not run here"),
    ("GRIDMANAGER GRIDMANAGER_<setting> <kind>_GAHP <kind>_GAHP_<setting> C_GAHP_<setting> CGAHP_<setting> "
     "BATCH_<setting> BLAHPD_LOCATION ANNEX_<setting> HPC_ANNEX_ENABLED", "grids and clouds"),
    ("DAGMAN_<setting>", "DAGMan"),
    ("JOB_ROUTER JOB_ROUTER_<setting>", "the job router"),
    ("ROOSTER ROOSTER_<setting> HIBERNATE HIBERNATE_<setting> HIBERNATION_<setting> UNHIBERNATE "
     "LINUX_HIBERNATION_METHOD OFFLINE_<setting>", "machines that hibernate"),
    ("<KEYWORD>_HOOK_<name> <SUBSYS>_JOB_HOOK_KEYWORD SLOT<N>_JOB_HOOK_KEYWORD FetchWorkDelay "
     "STARTER_DEFAULT_JOB_HOOK_KEYWORD", "hooks"),
    ("LVM_<setting> THINPOOL_<setting> STARTD_ENFORCE_DISK_LIMITS ENCRYPT_EXECUTE_DIRECTORY "
     "DISABLE_EXECUTE_DIRECTORY_ENCRYPTION", "disk limits by logical volumes: docs/execution.md has what is enforced"),
    ("BASE_CGROUP CGROUP_<setting> DISABLE_SWAP_FOR_JOB", "cgroups: docs/execution.md has what is enforced"),
    ("SSH_<setting> ENABLE_SSH_TO_JOB SCHEDD_ENABLE_SSH_TO_JOB CONDOR_SSH_<setting> SSHD SSHD_ARGS",
     "condor_ssh_to_job"),
    ("STARTER STARTER_<setting> SHADOW SHADOW_<setting> USER_JOB_WRAPPER JOB_INHERITS_STARTER_ENVIRONMENT "
     "ENABLE_CHIRP ENABLE_CHIRP_<setting> CHIRP_<setting> MOUNT_<setting> PER_JOB_NAMESPACES USE_PID_NAMESPACES "
     "SLOT<N>_USER NOBODY_SLOT_USER DEDICATED_EXECUTE_ACCOUNT_REGEXP EXECUTE_LOGIN_IS_DEDICATED RUN_<setting> "
     "JOB_EXECDIR_PERMISSIONS KEEP_OUTPUT_SANDBOX CREATE_CORE_FILES CORE_FILE_NAME ENFORCE_CPU_AFFINITY "
     "ASSIGN_CPU_AFFINITY SLOT<N>_CPU_AFFINITY ENVIRONMENT_FOR_<name> ENVIRONMENT_VALUE_FOR_<name>",
     "how a job's processes are run"),
    ("NEGOTIATOR_<setting> NEGOTIATION_<setting> USE_RESOURCE_REQUEST_COUNTS FORCE_NEGOTIATOR_SLOT_WEIGHT",
     "the negotiator's ways"),
    ("SCHEDD SCHEDD_<setting> MAX_<setting> JOB_START_<setting> JOB_STOP_<setting> START_LOCAL_UNIVERSE "
     "START_SCHEDULER_UNIVERSE LOCAL_UNIV<setting> REQUEST_CLAIM_TIMEOUT QUEUE_CLEAN_INTERVAL "
     "CLAIM_RECYCLING_CONSIDER_LIMITS", "the schedd's ways"),
    ("STARTD STARTD_<setting> SLOT_<setting> SLOT<N>_<setting> SLOT_TYPE_<N>_<setting> SYSTEM_STARTD_<setting> "
     "PSLOT_<setting> DSLOT_<setting> BENCHMARKS_<setting> NAME_PREFIX NUM_CLAIMS HIDDEN PARTITIONABLE RESERVED_SWAP "
     "UNUSED_CLAIM_TIMEOUT ENABLE_STARTD_DAEMON_AD UPDATE_OFFSET UPDATE_SPREAD_TIME MAX_NUM_CPUS",
     "the startd's ways"),
    ("SUBMIT_<setting> INTERACTIVE_SUBMIT_<setting> WARN_ON_UNUSED_SUBMIT_FILE_MACROS EXTENDED_SUBMIT_<setting>",
     "condor_submit's ways"),
    ("LIBRARIAN LIBRARIAN_<setting> USING_LIBRARIAN", "an index of the history"),
    ("PLACEMENTD PLACEMENTD_<setting>", "condor_placementd"),
    ("KBDD KBDD_<setting> X_CONSOLE_DISPLAY", "condor_kbdd: docs/slots.md has what is sensed"),
    ("STATISTICS_<setting> DCSTATISTICS_<setting> PUBLISH_<setting> RESET_DC_STATS_ON_RECONFIG WINDOWED_STAT_WIDTH "
     "DAILY_STATS_<setting>", "statistics of daemons"),
    ("WINDOWS_<setting> ADD_WINDOWS_<setting> SKIP_WINDOWS_<setting> USE_VISIBLE_DESKTOP OPEN_VERB_FOR_<EXT>_FILES "
     "DOT_NET_VERSIONS", "Windows"),
    ("HFS_<setting>", "group quotas"),
    ("DATA_REUSE_<setting> DATA_SLOT_<setting> KEEP_DATA_CLAIM_IDLE FORBID_<setting> LIMIT_DIRECTORY_ACCESS "
     "PROTECTED_URL_TRANSFER_MAPFILE REDIRECT_FILETRANSFER_<setting> LOG_FILETRANSFER_<setting> <PLUGIN>_TEST_URL "
     "RUN_FILETRANSFER_<setting> RUN_CLEANUP_PLUGINS_AS_OWNER STASH_PLUGIN SIGN_S3_URLS PLUGIN_DIR PLUGINS",
     "file transfer"),
    ("X509_<setting> GSI_<setting> SCITOKENS_<setting> TOKEN_<setting> PASSWORD_AUTHENTICATION_TIMEOUT USERID_MAP "
     "ENCRYPT_SECRETS USE_VOMS_ATTRIBUTES OCU_SUPER_USERS PERSONAL_CONDOR_IS_SUPER_USER VALID_COD_USERS "
     "IGNORE_DOMAIN_FOR_JOB_OWNER_CHECK WARN_DOMAIN_FOR_JOB_OWNER_CHECK JOB_OWNER_MUST_BE_FROM_UID_DOMAIN "
     "ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY <service>_PELICAN_<setting>", "who may do what: docs/execution.md"),
    ("PROCD PROCD_<setting> USE_PROCD USE_PROCESS_GROUPS USE_GID_PROCESS_TRACKING MIN_TRACKING_GID MAX_TRACKING_GID "
     "PID_SNAPSHOT_INTERVAL RESTART_PROCD_ON_ERROR USE_CLONE_TO_CREATE_PROCESSES DAEMON_CORE_KILL_ANY_PROCESS "
     "NEVER_USE_KILL_FOR_DC_SIGNALS USE_UDP_FOR_DC_SIGNALS", "how processes are watched: docs/execution.md"),
    ("CONDOR_Q_<setting> Q_<setting> QUERY_TIMEOUT TOOL_<setting> TOOLS_<setting> <SUBSYS>_MAX_FILE_DESCRIPTORS "
     "<SUBSYS>_ADDRESS_FILE <SUBSYS>_SUPER_ADDRESS_FILE <SUBSYS>_DAEMON_AD_FILE <SUBSYS>_TIMEOUT_MULTIPLIER "
     "TIMEOUT_MULTIPLIER <SUBSYS>_ATTRS <SUBSYS>_NAME MAX_FILE_DESCRIPTORS MAX_ACCEPTS_PER_CYCLE MAX_REAPS_PER_CYCLE "
     "MAX_TIMER_EVENTS_PER_CYCLE MAX_UDP_MSGS_PER_CYCLE", "how the tools and daemons talk to each other"),
    ("EVENT_LOG_FORCE_CLOSE STARTD_EVENTLOG STARTD_EVENTLOG_<setting> WRITELOG_<setting> <SUBSYS>_<LEVEL>_LOG "
     "LOG_ON_NFS_IS_ERROR WANT_XML_LOG ENABLE_USERLOG_<setting> ALWAYS_CLOSE_USERLOG DEFAULT_USERLOG_FORMAT_OPTIONS "
     "CONDOR_FSYNC", "logs in files"),
    ("ENABLE_PERSISTENT_CONFIG ENABLE_RUNTIME_CONFIG PERSISTENT_CONFIG_DIR RUNTIME_CONFIG_ADMIN USER_CONFIG_FILE "
     "SETTABLE_<setting> USE_SCRIPT_TO_CREATE_CONFIG", "configuration over the network, or of a user's own"),
)  # fmt: skip
OTHER_SUBJECT: Final = "what no part of Poolbook does"


@cache
def _followed() -> Names[str]:
    return Names.of((names, who) for who, names in FOLLOWED)


@cache
def _unenforced() -> Names[str]:
    return Names.of(UNENFORCED)


@cache
def _subjects() -> Names[str]:
    return Names.of(SUBJECTS)


def follower(name: str) -> str | None:
    """Who follows a setting, by its name without a daemon's or a slot's prefix; None: nobody does."""
    return "other settings, as $(...)" if name.lower() in MACROS else _followed().get(name)


def unenforced(name: str) -> str | None:
    """What a setting is part of that would keep something out, and does not here; None: it is none of those.

    A name that merely ends in _LIMIT is for the caller to tell apart: see ``LIMIT_SUFFIX``.
    """
    return None if name.lower() in QUOTA_SETTINGS else _unenforced().get(name)


def subject(name: str) -> str:
    """What HTCondor does by a setting that is not followed here."""
    return _subjects().get(name) or OTHER_SUBJECT
