"""HTCondor's own files, read: a module for each family of formats, which turns bytes into events.

Every reader is a ``Reader`` (``reader``): it is fed a source piece by piece, never opens a file, and can be stopped at
any byte and go on later. Nothing here decides what a folder holds, joins sources or judges what they say: that is for
``adapters/condor_files/importing`` and ``replay/forensics/audit``.

``stimuli``, with the modules that begin with ``trace_``, takes a folder of such files the other way: not what a real
startd did, but what happened to it is read from its log, and happens to a machine of our own.
"""

if __name__ != "poolbook.adapters.condor_files":
    raise ImportError(f"import this folder as poolbook.adapters.condor_files, not as {__name__}")
