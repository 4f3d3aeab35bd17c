"""fedaudit doctor: is this machine fit."""

from fedaudit.api.errors import InputError
from fedaudit.cli.console import print_item


def doctor() -> int:
    """Check that an audit will find what it needs.

    It checks plugins, the built-in model, devices and offline detection.
    """
    from fedaudit.cli.doctor_checks import checks

    fit = True
    for title, check in checks():
        try:
            print_item("ok      ", f"{title}: {check()}")
        except Exception as error:  # whatever breaks is what the user wants to know
            fit = False
            print_item("broken  ", f"{title}: {error or type(error).__name__}")
    return 0 if fit else InputError.exit_code
