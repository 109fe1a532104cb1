"""Replay recorded traces of real pools and compare the results with ours."""
