"""What both commands need from the machine they run on, and no message depends on.

`start_up` runs a command, `terminal` prints for people and for machines, `files` writes durably.
"""
