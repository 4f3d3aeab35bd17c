"""fedaudit doctor: is this machine fit."""


def doctor() -> int:
    """Check that an audit will find what it needs.

    It checks plugins, the built-in model, devices and offline detection.
    """
    from fedaudit.api.errors import InputError
    from fedaudit.audit.doctor import checks
    from fedaudit.cli.console import print_item

    fit = True
    for title, check in checks():
        try:
            print_item("ok      ", f"{title}: {check()}")
        except Exception as error:  # whatever breaks is what the user wants to know
            fit = False
            print_item("broken  ", f"{title}: {error or type(error).__name__}")
    return 0 if fit else InputError.exit_code
