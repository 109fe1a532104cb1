"""Audit an import (the records of a real HTCondor pool), and reconstruct the daemons' tables from it."""
