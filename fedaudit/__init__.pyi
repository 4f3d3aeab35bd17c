from fedaudit.attribution.pipeline import attribute as attribute
from fedaudit.audit.verbs import audit as audit
from fedaudit.audit.verbs import extract as extract
from fedaudit.audit.verbs import infer as infer
from fedaudit.audit.verbs import memorize as memorize
from fedaudit.report.document import Report as Report
from fedaudit.simulation.session import simulate as simulate

__version__: str
