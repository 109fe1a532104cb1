"""The import: folders of a real pool's files into a log, once each, as far as they have grown.

Here stand what a file is (``kinds``), which files a folder has and in what order they were written (``folders``),
their bytes whatever compresses them (``content``), in which zone their times are (``zones``), what the log has of them
already (``known``), and the import itself (``driver``). What the files say is for the readers (``adapters/htcondor``).
"""

if __name__ != "poolbook.adapters.condor_files.importing":
    raise ImportError(f"import this folder as poolbook.adapters.condor_files.importing, not as {__name__}")
