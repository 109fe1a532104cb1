"""The overview of a pool, now or at a past time: sentences, counts and rows for the web page and ``poolbook top``.

Functions of `Queries` return the structs in ``records``. They read aggregates from the views, or the records of an
import. What no record shows is missing from an answer, and listed in its ``missing``.
"""
