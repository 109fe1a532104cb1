"""Explain jobs and slots of a real pool by its records."""
