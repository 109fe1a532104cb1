"""The pool's HTTP service: the API under ``/api/v1``, and the web page that uses it.

The service is a process next to the pool. It answers queries from the log's views, and sends commands to the pool's
socket in the name of the user who requests them, so it never delays the pool.
"""
