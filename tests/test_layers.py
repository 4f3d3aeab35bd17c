"""Imports point one way, modules and folders stay small, and one concept has one name."""

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]

# A room (a folder of fedaudit/) imports from rooms below its own line, and from itself.
LAYERS = [
    {"__main__"},
    {"cli"},
    {"assessment", "reproduction"},
    {"attribution"},
    {"audit", "flower"},
    {"conversion", "extraction", "simulation"},
    {"canaries", "engine", "journal"},
    {"data", "federation"},
    {"config", "judge", "nano", "report"},
    {"metrics", "pii", "system"},
    {"api"},
    {"__init__"},
]
PLUGINS_KEEP_OUT = {"__main__", "cli", "config", "conversion", "reproduction", "simulation"}
HEAVY = {"torch", "transformers", "peft"}
LARGEST_MODULE, LARGEST_FOLDER = 300, 18


def renamed(table: str) -> dict[str, str]:
    """Return the pairs of a table of `old>new` words."""
    return dict(pair.split(">") for pair in table.split())


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Words for concepts that have another name now: of classes, of functions and methods that others
# can call, of modules. CONTRIBUTING.md says how to find a name.
OLD_CLASSES = renamed("""
Answered>MaskedSequence Apart>ScatteredQuery Asked>ScoredQuestion Attached>AdapterCache
Attributed>AttributionResult Audited>AuditTarget Beginning>PromptStart Bounds>AdaptiveBatchLimits
Branches>SharedPrefixRows Case>AttackContext Chances>PrefixProbabilities Children>ProcessBackend
Continued>Continuation Copies>CopiedPrefixRows Course>DecodeLoop Crew>WorkerPool
Decoding>SamplingParams Deployed>Deployment Drawing>SamplingJob Drawn>OutputBuffer
Engines>ProcessBackend Facts>EngineInfo Found>SearchTotals Generation>Completion
Heard>HitCounter Hit>Match Job>ClientTraining Kept>AuditJournal KeptEngine>CachingEngine
Limits>BatchLimits Listening>StopState Lost>WorkerDied Manner>QueryParams Memory>ResponseCache
Needed>BudgetCurve NoRoomError>BatchTooLargeError Order>EngineConfig Part>ShardJournal
Party>ClientData Piece>SampleRange Preparing>PrefixAttack Probe>GenerationRequest Question>Query
RespondingEngine>RoutedEngine Room>BatchLimits Sampled>ClientSample
Samples>RunningSequences Scored>ScoredResult Seen>RoundRecord Sequel>FollowUpTraining
Sharing>AttackContext Sought>StopStrings SpreadEngine>ParallelEngine Staff>WorkerBackend
Stream>JournalPass Strings>TargetMatcher Suspicion>ClientScore Tally>ExtractionResult
Trial>AttributionContext Truth>TargetSet Turn>TrainedClient View>ModelView Walk>SearchConfig
Wish>ProtocolConfig
Law>LeakDistribution Rates>FlagCounts PowerPoint>PowerEstimate Labelled>LabelledScores
SaidStrings>StringProbabilities Probed>PrefixHits Prepared>PreparedText Released>EstimateLeakage
Refused>AttestationError Marking>WatermarkLogitsProcessor
""")
OLD_FUNCTIONS = renamed("""
answered>execute begins_with>prefix_probabilities beginnings>prompt_starts begun>start
collect>collect_states drawing>sampling_params fact>record_fact fills>fill_candidates
forecast>dry_run framed>build_report further>auxiliary_adapters globally>global_model
guesses>sample_controls learned>loss_mask limits>caveats listen>update marked>watermark_plugin
material>auxiliary_data notes>caveats offers>has_candidates parting>search planting>watermarking
remember>client_state remembers>stateful_clients resets>merges_each_round sought>stop_strings
spelling>token_automaton story>summary sweep>remove_stale_temp_files told>describe
trial>plaintext tried>attack_summaries unknown>unknown_name_error window>context_window
laid_out>build_table telling_rows>headline_totals telling_rank>source_rank
said_strings>string_probabilities of_string>families_with_string of_prompts>families_by_prompt
of_counts>p_value_from_counts hashed>hash_tokens wrapped>wrap_int64 unpacked>unpack
""")
OLD_MODULES = renamed("""
alone>local_baseline answering>caching_engine apart>routed asking>sampling attached>active
attributor>attribution beginning>prompt_start blend>composition chance>null_distribution
changes>rekeying children>process_pool course>decoding crew>worker_pool exhausted>memory
expectation>measurements forecast>dry_run framed>run_header globally>global_model gradient>influence
grouped>shared_prefix headers>header_features hookspecs>hooks interfaces>plugin invented>surrogates
keeping>shards leakage>privacy_utility learned>loss_mask lessons>training_examples lines>grouping
marking>watermarking marks>watermark_keys material>datasets matrix>cross_client measure>detection
merging>merge mixed>multi parting>search planting>watermarking probable>findings
remembered>kv_cache resuming>resume room>batching rows>measurements running>z_by_round
sealed>encryption several>multi_target sought>stopping spelling>token_automaton spread>engine
story>summary sweeps>budget_sweep together>attack_runner trial>plaintext tried>attacks
tuning>finetune turns>local_round views>keyed walking>walk
shared_law>shared_sets_distribution
""")
# Parameters and fields that have another name now where they are of this type.
OLD_PARAMETERS = renamed("""
order>EngineConfig crew>WorkerPool staff>WorkerBackend manner>QueryParams
trial>AttributionContext case>AttackContext walk>SearchConfig bounds>BatchLimits
course>TrainingSession party>ClientState wish>ProtocolConfig
""")
# Words of every day that do not say what a variable or a parameter is.
EVERYDAY = words("""
able alone among apart asked at began begun best better both by came drawn each ended ends few
found further given half heard held here judged kept known less made many meant mine more much of
one other others own part parts rest said seen several shown some spent stands started taken
theirs there thing things together told tried wanted way ways went what which who whole whom whose
worse wrong
""")
EVERYDAY_SHARE = 0.01
SAME_NAME: dict[str, str] = {}
"""Classes that may be defined twice, and why."""

RANK = {room: rank for rank, rooms in enumerate(reversed(LAYERS)) for room in rooms}
FOLDERS = {"fedaudit": "fedaudit", "fedaudit_plugins": "plugins", "fedaudit_profiles": "profiles"}
MODULES = [
    (".".join((package, *path.relative_to(ROOT / folder).with_suffix("").parts)), path)
    for package, folder in FOLDERS.items()
    for path in sorted((ROOT / folder).rglob("*.py"))
]
CORE = [(name, path) for name, path in MODULES if name.startswith("fedaudit.")]
PLUGINS = [module for module in MODULES if module not in CORE]
NAMES = {name.removesuffix(".__init__") for name, _ in MODULES}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


TREES = {name: parsed(path) for name, path in MODULES}


def imports(name: str, tree: ast.AST) -> Iterator[str]:
    """Yield the absolute names that a module's tree imports; submodules by their own name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(name.split(".")[: -node.level]) if node.level else ""
            source = ".".join(filter(None, (above, node.module)))
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield whole if whole in NAMES else source


def room(name: str) -> str:
    """Return the room of a module of fedaudit."""
    return f"{name}.__init__".split(".")[1]


def at_start(tree: ast.Module) -> ast.Module:
    """Return what runs when the module is imported: no function bodies, no TYPE_CHECKING."""

    class Shallow(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    return Shallow().visit(tree)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, each sorted; Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, set()):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def test_every_room_has_a_layer():
    assert {room(name) for name, _ in CORE} == RANK.keys()


def test_the_core_imports_downwards_and_no_plugin():
    wrong = []
    for name, _ in CORE:
        for imported in imports(name, TREES[name]):
            top = imported.partition(".")[0]
            upwards = top == "fedaudit" and room(imported) != room(name)
            if top in {"fedaudit_plugins", "plugins"} or (
                upwards and RANK[room(imported)] >= RANK[room(name)]
            ):
                wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_plugins_keep_out_of_what_runs_them():
    assert not [
        f"{name} imports {imported}"
        for name, _ in PLUGINS
        for imported in imports(name, TREES[name])
        if imported.partition(".")[0] == "fedaudit" and room(imported) in PLUGINS_KEEP_OUT
    ]


def test_no_modules_import_each_other():
    graph = {
        name.removesuffix(".__init__"): set(imports(name, tree)) & NAMES
        for name, tree in TREES.items()
    }
    assert circles(graph) == []


def test_circles_are_found():
    graph = {
        "a": {"b"},
        "b": {"c"},
        "c": {"a", "d"},
        "d": {"e"},
        "e": set(),
        "f": {"g"},
        "g": {"f"},
    }
    assert sorted(circles(graph)) == [["a", "b", "c"], ["f", "g"]]


def test_models_are_imported_with_a_module_in_the_engine_only():
    wrong = []
    for name, path in MODULES:
        heavy = {i for i in imports(name, at_start(parsed(path))) if i.partition(".")[0] in HEAVY}
        if heavy and not name.startswith("fedaudit.engine."):
            wrong.append(f"{name} imports {heavy}")
    assert not wrong


def test_the_checks_see_through_every_way_to_import():
    code = (
        "from ..report import document\nfrom . import pipeline\nimport fedaudit.cli.console as s\n"
    )
    found = list(imports("fedaudit.audit.request", ast.parse(code)))
    assert found == ["fedaudit.report.document", "fedaudit.audit.pipeline", "fedaudit.cli.console"]
    late = "def f():\n import torch\nif TYPE_CHECKING:\n import peft\nclass C:\n import a\n"
    assert list(imports("x", at_start(ast.parse(late)))) == ["a"]
    assert room("fedaudit") == "__init__"


def test_every_package_is_shipped():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {name.removesuffix(".__init__") for name, _ in MODULES if name.endswith(".__init__")}
    assert sorted(listed) == sorted(found)
    assert {name.rpartition(".")[0] for name, _ in MODULES} <= found


def test_modules_and_folders_are_small():
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES}
    assert not [f"{name}: {n}" for name, n in lines.items() if n > LARGEST_MODULE]
    sizes = Counter(name.rpartition(".")[0] for name in lines if not name.endswith(".__init__"))
    assert not [f"{folder}: {n}" for folder, n in sizes.items() if n > LARGEST_FOLDER]


def test_a_package_says_what_its_modules_are():
    silent = []
    for package in sorted(name for name in NAMES if f"{name}.__init__" in TREES):
        if not package.startswith("fedaudit."):
            continue
        text = ast.get_docstring(TREES[f"{package}.__init__"]) or ""
        below = {n.split(".")[package.count(".") + 1] for n in NAMES if n.startswith(f"{package}.")}
        silent += [f"{package}.{n}" for n in below if not {f"`{n}`", f"`{n}/`"} & set(text.split())
                   and f"`{n}`:" not in text and f"`{n}/`:" not in text]  # fmt: skip
    assert not silent


MAP_LINE = re.compile(r"^\* `(\w+)/?`: (.+(?:\n  .+)*)", re.MULTILINE)


def map_lines(package: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the modules that a package's docstring lists, each with what it says of it."""
    for module, line in MAP_LINE.findall(text):
        yield f"{package}.{module}", " ".join(line.split())


def first_line(name: str) -> str:
    """Return the first line of the docstring of a module or package."""
    tree = TREES[name] if name in TREES else TREES[f"{name}.__init__"]
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def test_a_package_says_of_its_modules_what_they_say_of_themselves():
    wrong = [
        f"{name}: {line}"
        for package in sorted(name for name in NAMES if f"{name}.__init__" in TREES)
        for name, line in map_lines(package, ast.get_docstring(TREES[f"{package}.__init__"]) or "")
        if line != first_line(name)
    ]
    assert not wrong


def test_lines_of_a_package_are_read_whole():
    text = "A package.\n\n* `one`: What one\n  is.\n* `two/`: What two is.\n"
    assert [*map_lines("p", text)] == [("p.one", "What one is."), ("p.two", "What two is.")]


def defined(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """Yield classes, and functions and methods that others can call: not those within functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield node
            if not isinstance(node, ast.FunctionDef):
                waiting.append(node)


def test_no_two_classes_have_one_name():
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert twice.keys() == SAME_NAME.keys(), twice


def test_old_words_are_gone():
    leaves = {name: name.rpartition(".")[2] for name in NAMES}
    old = [f"{name}: {OLD_MODULES[leaf]}" for name, leaf in leaves.items() if leaf in OLD_MODULES]
    for name, tree in TREES.items():
        for node in defined(tree):
            words = OLD_CLASSES if isinstance(node, ast.ClassDef) else OLD_FUNCTIONS
            if node.name in words:
                old.append(f"{name}.{node.name}: {words[node.name]}")
    assert not old


def annotated(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name and the annotation of each parameter and of each annotated field."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield node.arg, ast.unparse(node.annotation)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, ast.unparse(node.annotation)


def test_old_names_of_parameters_are_gone():
    assert not [
        f"{module}: {name}: {annotation}"
        for module, tree in TREES.items()
        for name, annotation in annotated(tree)
        if name in OLD_PARAMETERS and OLD_PARAMETERS[name] in annotation
    ]


def variables(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each variable that is bound, each time, and of each parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield node.arg


def test_variables_say_what_they_are():
    names = Counter(name for tree in TREES.values() for name in variables(tree))
    everyday = {name: count for name, count in names.items() if name in EVERYDAY}
    share = sum(everyday.values()) / names.total()
    assert share <= EVERYDAY_SHARE, Counter(everyday).most_common(10)


def test_the_count_of_variables_by_hand():
    tree = ast.parse(
        "def f(self, found, /, *some, **own):\n    a.told, (one, x) = [n for n in found]"
    )
    assert [*variables(tree)] == ["found", "some", "own", "one", "x", "n"]


def test_the_checks_of_names_see_methods_and_no_inner_functions():
    code = "class A:\n def b(self):\n  def c(): pass\n  class D: pass\nif x:\n def e(): pass\n"
    assert {node.name for node in defined(ast.parse(code))} == {"A", "b", "e"}


def test_no_two_test_modules_have_one_name():
    """Pytest imports them by their names alone."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]
