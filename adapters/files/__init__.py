"""The files of jobs that run on other machines: an access point serves inputs and receives outputs over HTTPS.

The other end is ``machine/execution/supervisor/remote_files``. ``offers`` has the activations and their transfer keys,
``incoming`` receives outputs and brings them to their destinations, and ``app`` is the ASGI application.
"""
