"""fedaudit doctor: is this machine fit."""


def doctor() -> int:
    """Check that an audit will find what it needs.

    It checks plugins, the built-in model, devices and offline detection.
    """
    from fedaudit.api.errors import InputError
    from fedaudit.audit.doctor import checks

    fit = True
    for title, check in checks():
        try:
            print(f"ok      {title}: {check()}", flush=True)
        except Exception as error:  # whatever breaks is what the user wants to know
            fit = False
            print(f"broken  {title}: {error or type(error).__name__}", flush=True)
    return 0 if fit else InputError.exit_code
