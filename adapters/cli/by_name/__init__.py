"""HTCondor's tools that Poolbook has under their own names alone, a module for each: condor_tail is ``tail``.

Each reads its words by a ``Tool`` (``condor_tools/tool_options``), and prints and ends as HTCondor's does.
"""
