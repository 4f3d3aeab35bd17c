"""An audit from a request to a report: with one attack, or with every attack that applies.

Called, the package is its verb: `fedaudit.audit(...)` is `fedaudit.audit.verbs.audit(...)`, since a
package and a function in one place cannot have one name.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from fedaudit.audit.verbs import audit

        return audit(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
