"""The rows that `poolbook export` writes: runs, slot intervals, cycles, events and transitions."""
