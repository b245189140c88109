"""Files on the disk: bounded reading, atomic writing, and the folder of a run.

Read in this order: `bounded_reading`, `atomic_files`, `run_folder`.
"""
