"""Files, locks, processes and sandboxes.

* `file_reader`: Files read for one command: each byte once, however many steps need the content or
  its hash.
* `failures`: Failures of the machine, found in the errors that libraries make of them.
* `files`: Files that are whole or absent, and their fingerprints.
* `http_client`: JSON over HTTP to servers that may be slow, busy or hostile: retried, bounded,
  brief in errors.
* `landlock`: Landlock, the Linux kernel's way for a process to give up rights, for itself and for
  good.
* `locks`: Locks: one process at a time works in a folder.
* `names`: Names that become files: what others name may not lead out of its folder, nor to a
  device.
* `new_folders`: Folders that are made for some work, and go again where it leaves nothing in them.
* `numbers`: Numbers that strangers' files hold, and counts in words.
* `outputs`: Files that a command writes where the user says: never in place of another kind.
* `processes`: Worker processes that work for one parent and end with it.
* `sandbox`: What a library does with an untrusted file, tried in a process that can be killed.
* `staging`: Folders in which files are written before they take their place, and their removal.
"""
