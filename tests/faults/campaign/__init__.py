"""Every crash point of one small round: kills, power cuts and failing disks at each durable call.

Three processes are watched: the analyst's server, the command `odc` of an institution, and the compute child.
A round is played once undisturbed, and each of their durable calls is a *point* (`points`). Then the round is
played again for each point and each kind of fault: the process is killed before the call or after it, the
machine loses its power after it, or the call fails as a broken or a full disk makes it fail. A supervisor
starts the server again, people type the same command again, and the round has to end as the undisturbed one.

Why a library in C, loaded by LD_PRELOAD: only there the calls of every library are seen. A third of the
points are SQLite's, in its write-ahead log and its database file, and TLS records are sent by OpenSSL; a
patch of Python's `os` sees neither. It is compiled in a second when the campaign starts, and needs `cc` and
Linux. It decides nothing: before and after each call it asks a controller in the campaign's process
(`controller`), so that a kill falls exactly there, and nothing else of the same process is half done.

What is on the disk after a power cut is computed (`disk`), because no file system can be asked to be as
forgetful as POSIX lets it be: a file has the content of its last fsync, a directory the names of its last
fsync. ``torn`` is the opposite: every name has arrived, and of what was written since the last fsync all,
nothing, half of it or zeros, as a seed draws it.
"""
