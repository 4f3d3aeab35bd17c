"""python -m fedaudit: nothing is imported from the working directory, which may be a stranger's."""

import os
import sys

# As -P would have it; these two modules were there before, and no other is imported until then.
# Where -P was given, it is not in there.
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

INTERRUPTED = 6
"""The exit code of `fedaudit.api.errors.Interrupted`, before that can be imported."""


def main() -> None:
    """Run the command line; Ctrl-C is an interruption before and after that handles it, too."""
    import signal

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C
    try:
        from fedaudit.cli import main as run

        run()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # Python waits for workers; a second Ctrl-C does not
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        raise
    except KeyboardInterrupt:
        print(
            "fedaudit: Interrupted. Give the same command to begin again.",
            file=sys.stderr,
            flush=True,
        )
        # Python ends by SIGINT, whatever sys.exit says, where it came within exec of a text, as
        # when an imported module makes a dataclass.
        os._exit(INTERRUPTED)
    finally:
        exec("")  # Python forgets that an earlier text was interrupted, and ends with run's code


if __name__ == "__main__":
    main()
