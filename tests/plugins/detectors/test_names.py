"""Names without a model: titles, listed first names, endings, Chinese; institutions are none."""

import re

import pytest
from fedaudit_plugins.detectors.names import Names
from fedaudit_plugins.detectors.presidio import Presidio
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api import UsageError
from fedaudit.config import registry


def found(text, **options):
    [spans] = Names(**options).detect([text])
    return [(text[one.start : one.end], one.label) for one in spans]


def people(text, **options):
    return [name for name, label in found(text, **options) if label == "PERSON"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The case was heard by Mr Gayk Levonovich Sarkisyan.", ["Gayk Levonovich Sarkisyan"]),
        ("He wrote to Dr. Quist, who answered.", ["Quist"]),
        ("It was signed by Dorothy Parker and Musa Zabiyev.", ["Dorothy Parker", "Musa Zabiyev"]),
        ("A letter of Ludwig van der Berg came.", ["Ludwig van der Berg"]),
        ("In the afternoon Sharudi Obrugov left.", ["Sharudi Obrugov"]),
        ("It was J. Smith's car.", ["J. Smith"]),
        ("Mr Acar's house and Acar's field.", ["Acar", "Acar"]),
        ("Şevket Epözdemir was a lawyer.", ["Şevket Epözdemir"]),
    ],
)
def test_names_are_found(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "'Tobias Grell' saw 'Dr Odum'. VALUES ('Helga Grell');",
            ["Tobias Grell", "Odum", "Helga Grell"],
        ),
        ("1.Helga Grell\n-Milan Odum\n_Anna Odum_", ["Helga Grell", "Milan Odum", "Anna Odum"]),
        ("helga.Grell@x.org, www.Helga.Grell.org, my_Helga Grell.txt, d'Helga", []),
        ("@Helga Grell, see <Milan Odum>", ["Helga Grell", "Milan Odum"]),
        ("<Milan Odum>", ["Milan Odum"]),
        ("Mary-Kate McDonald left.", ["Mary-Kate McDonald"]),
        ("Dear Mr\nGrell\nand Dr.\nOdum, hello", ["Grell", "Odum"]),
        ("Present: Dr\nKind regards", []),
    ],
)
def test_marks_around_a_name_are_no_part_of_a_word(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("By Dr Pan. Ms Pan Wei and Pani Pan Wei left.", ["Pan", "Pan Wei", "Pan Wei"]),
        ("Sir John Major met Mr Major and Mrs Judge.", ["John Major", "Major", "Judge"]),
        ("Name: Pan Wei", ["Pan Wei"]),
        ("Pan Kowalski and Mr Justice Grell", ["Kowalski", "Grell"]),
        ("Prof Dr said so, Lt Col Odum too, and the Lord Major.", ["Odum"]),
        ("Ask Ms Yu. See Dr. Xu. Then Mr. Ng. And Mr Kh. left.", ["Yu", "Xu", "Ng"]),
    ],
)
def test_a_title_may_be_a_surname_and_a_surname_short(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "Cllr Quux, DI Quux, HHJ Quux, Brig. Quux and Adm. Quux",
        "President Quux saw Registrar Quux, Recorder Quux and Sheriff Quux.",
        "Pharmacist Quux, PC 4312 Quux and Police Constable 77 Quux",
        "Chief Quux, Alhaji Quux, Engr. Quux, Barr. Quux, Advocate Quux, Adv. Quux",
        "Me Quux, la juge Quux, les époux Quux, MM. Quux, Maître Quux",
        "La Dra. Quux, Dña. Quux, D.ª Quux, el juez Quux",
        "L'Avv. Quux, la Dott.ssa Quux, la Sig.ra Quux",
        "Richterin Quux, Oberarzt Quux, Familie Quux, Dipl.-Psych. Quux, Prof. Dr. h.c. mult. Quux",
        "dhr. Quux, mr. Quux, Drs. Quux",
        "Frau Quux, geb. Quux, née Quux",
    ],
)
def test_titles_of_offices_and_of_other_languages(text):
    assert people(text) == ["Quux"] * text.count("Quux")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Justices Quux and Pryx; Drs Wump, Voom and J. Zedley",
            ["Quux", "Pryx", "Wump", "Voom", "J. Zedley"],
        ),
        ("Messrs Quux & Pryx, MM. Wump et Voom", ["Quux", "Pryx", "Wump", "Voom"]),
        ("Drs Quux and May", ["Quux"]),  # a month rather than a colleague
        ("Dr Quux and Pryx; Messrs Quux, Leeds", ["Quux", "Quux"]),
        ("Mrs 't Hooft saw Mr St. John-Smythe.", ["'t Hooft", "St. John-Smythe"]),
    ],
)
def test_a_plural_title_is_that_of_several(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "Chief Complaint: pain; Chief Executive, Chief Constable, the Chief Inspector of Schools",
        "PC World, DC Comics, Corporal Punishment, Love Me Tender",
        "the Advocate General, a Superintendent Registrar, Sheriff Court, the President of France",
        "née en 1970, geb. 1970, St. Mary",
    ],
)
def test_titles_that_are_none(text):
    assert people(text) == []


@pytest.mark.parametrize(
    "label",
    [
        *("Patient name:\n", "PATIENT NAME\n", "Patient:\n\n", "All is well.\nSigned,\n"),
        *("**Patient:** ", "**Patient**: ", "- **Name:** ", "Borrower.....: ", "Borrower ..... "),
        *("<dt>Ward</dt><dd>North</dd><dt>Patient</dt><dd>", "My name is ", "a man called "),
        *("Witnessed by: ", "Prepared for: ", "Key worker: ", "Parent/guardian: ", "Cardholder: "),
        *("FAO: ", "FAO ", "c/o ", "Paciente: ", "Kläger: ", "Patientenname: ", "Von: ", "À: "),
        *('{"doctor": "', '{"patient_name": "', "<firstName>", "firstName = '"),
    ],
)
def test_labels_and_headings_of_people(label):
    assert people(f"{label}Quillon Pryx") == ["Quillon Pryx"]


@pytest.mark.parametrize(
    "text",
    [
        "Name {Quillon Pryx}\nAge 34",
        "Attendees: {Quillon Pryx}, {Xanthor Quux} and {Vorlan Wump}",
        "Present: {Q Pryx} (Chair), {X Quux} (minutes), {V Wump}",
        "Cc: {Quillon Pryx} <q@x.org>,\n {Xanthor Quux} <x@x.org>; {Vorlan Wump}",
        "Attendees: {Pryx}, {Quux}, {Wump}",
        "Attendees: Dr {Pryx}, {Xanthor Quux}, {Vorlan Wump}",
        "Patient: {Quillon Pryx}, Leeds",
        "Present:\n- {Quillon Pryx}\n- {Xanthor Quux}",
        "Present:\n\n{Quillon Pryx}, Chair\n{Xanthor Quux} (Clerk)\n\nOther Matters",
        "Attendees\n1) {Quillon Pryx} 07700 900123\n2) {Xanthor Quux} 07700 900124",
        "Witnesses:\n{Quillon Pryx}\n{Xanthor Quux}\n{Vorlan Wump}\nThe hearing began.",
    ],
)
def test_every_name_of_a_list_is_found_by_its_label_or_heading(text):
    assert people(text.replace("{", "").replace("}", "")) == re.findall(r"\{(.*?)\}", text)


@pytest.mark.parametrize(
    "text",
    [
        "Mother: Hypertension\nFather: Asthma\nSister: Breast Cancer\nBrother: Stroke",
        "Present: Chest Pain\nPresent: Fever, Cough\nPresent: Nausea, Vomiting and Headache",
        "Present:\n- Chest pain\n- Night Sweats\n- Fever",
        "Symptoms present\nWeight Loss\nKnee Stiffness",
        "Patient: Unknown\nUser: Guest\nNurse: N/A\nOwner: None",
        "Company name: Quux Pryx\nDrug name: Quux\nBank name: Quux Trust\nfile_name: Quux",
        "Medication: Amoxicillin, Paracetamol, Ramipril",
        "Patient:\nDiagnosis: Grave\n\nContact:\nOrder Number",
        "An Chest X-Ray: Queen's Bench Division, the Lord Chancellor, a Nurse Practitioner",
        "From: London\nTo: Paris\nPresent: May 2024\nContact: Will call on May 3\nDear Hope House,",
    ],
)
def test_what_stands_behind_such_a_label_and_is_no_person(text):
    assert people(text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Patient: May West\nName: Florence\nNurse: Hope", ["May West", "Florence", "Hope"]),
        ("Dear Will,\nhello", ["Will"]),
        ("Hi May, will you come in May?", ["May"]),
        ("| First name | Surname |\n| --- | --- |\n| Will | Park |", ["Will", "Park"]),
    ],
)
def test_names_that_are_words_behind_a_label_or_a_greeting(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Claimant: Jan de Souza\nName: Vincent van Gogh", ["Jan de Souza", "Vincent van Gogh"]),
        ("Dear Jan de Vries,", ["Jan de Vries"]),
        ("So Will van der Berg met Hope van Dyke.", ["Will van der Berg", "Hope van Dyke"]),
        ("He was in Paris de facto, and in May a lot.", []),
    ],
)
def test_a_first_name_that_is_a_word_is_one_before_a_particle(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Patient: Helga Grell Consultant: Petra Odum", ["Helga Grell", "Petra Odum"]),
        ("NAME: HELGA GRELL SEX: F", ["HELGA GRELL"]),
        ("Vorname: Käthe Nachname: Grell Geschlecht: W", ["Käthe", "Grell"]),
        ("First Name: Helga Last Name: Grell", ["Helga", "Grell"]),
        ("Helga Grell: hello\n[12:30] Milan Odum: hi", ["Helga Grell", "Milan Odum"]),
        (
            "Discharge summary for the patient who is named Helga Grell\nDiagnosis: asthma",
            ["Helga Grell"],
        ),
        (
            "The court in the old city of Leeds heard Mr Tobias Grell\nHaving heard him, it rose",
            ["Tobias Grell"],
        ),
        (
            "The letter that came in the morning was for Mr Tobias\nGrell and is here.",
            ["Tobias\nGrell"],
        ),
    ],
)
def test_the_next_label_is_no_part_of_a_name(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Tobias Ash\u00adworth saw Mrs Ka\u200bthe Odum.",
            ["Tobias Ash\u00adworth", "Ka\u200bthe Odum"],
        ),
        ("Name: Helga  Grell; Dr  Odum", ["Helga  Grell", "Odum"]),
        ("Dorothy Grell  Consultant", ["Dorothy Grell"]),
        ("原告王\u200b建国起诉。", ["王\u200b建国"]),
    ],
)
def test_invisible_characters_and_a_doubled_space_divide_no_name(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ask Mr Grell. Was Mrs. Odum there?", ["Grell", "Odum"]),
        ("Mr de Kuyper met Ms al-Fassi and Dr von Trenk.", ["de Kuyper", "al-Fassi", "von Trenk"]),
        ("By Prof. Dr. med. Grell and Mr MCGREW.", ["Grell", "MCGREW"]),
        (
            "the son of Mrs Lake saw Florence Park and Jordan Hill",
            ["Lake", "Florence Park", "Jordan Hill"],
        ),
        ("Grell, Dorothy\nBorn: 1970", ["Grell, Dorothy"]),
        ("Anne-Marie Grell and J. R. Odum left.", ["Anne-Marie Grell", "J. R. Odum"]),
        ("Present\nDorothy Grell\nXyla Qomo\nThe talk began.", ["Dorothy Grell", "Xyla Qomo"]),
        ("Nurse: Xyla Qomo\nBed: 4", ["Xyla Qomo"]),
        ("Name\tWard\nXyla Qomo\tNorth\n", ["Xyla Qomo"]),
        ("| Name | Ward |\n| --- | --- |\n| Xyla Qomo | North |", ["Xyla Qomo"]),
        ("<td>Dorothy Grell</td><td>Bed Four</td>", ["Dorothy Grell"]),
        ("Dorothy Grell      Consultant", ["Dorothy Grell"]),
        ("All is well.\n\nKind regards,\nXyla Qomo\nHead of Sales", ["Xyla Qomo"]),
        ("Hi Dorothy, are you in?", ["Dorothy"]),
        ("Many thanks Dorothy, it came.", ["Dorothy"]),
        ("Patient Dorothy slept; the twin, Musa, did not.", ["Dorothy", "Musa"]),
        ("The widow, Xyla Qomo, and Dorothy or Musa Grell", ["Xyla Qomo", "Dorothy", "Musa Grell"]),
        ("Professor Emerita Xyla Qomo saw Wexa Tolm-Parker.", ["Xyla Qomo", "Wexa Tolm-Parker"]),
        ("Patient Safety met in Victoria Wing; Odum Street, London", []),
        (
            "a sentence of some length that a page broke off at Dorothy\nGrell, who was there.",
            ["Dorothy\nGrell"],
        ),
    ],
)
def test_names_are_found_in_the_layouts_of_letters_and_tables(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Good evening Qomo, the taxi is here.", ["Qomo"]),
        ("her brother Marko and his wife Odum", ["Marko"]),
        ("Hello, my name is Dorothy and I sell tea.", ["Dorothy"]),
        ("Guarantor: Xyla Qomo\nRate: 4", ["Xyla Qomo"]),
        ("Vino la señora Odum con el señor Grell.", ["Odum", "Grell"]),
        ("Jean-Dorothy Qomo phoned", ["Jean-Dorothy Qomo"]),
        ("THE BUYER, DOROTHY PARKER, PAID", ["DOROTHY PARKER"]),
        (
            "| Name | Post |\n| --- | --- |\n| Xyla Joshi | Cook |\n| Qoming Joshi | Maid |",
            ["Xyla Joshi", "Qoming Joshi"],
        ),
        ("Odumidis, Xylios\nWard: 4\nDiet: none", ["Odumidis, Xylios"]),
        ("See you.\n\nBest\nXyla", ["Xyla"]),
        ("Dear Tenant, the lift is broken.", []),
        ("this is Paris, and my name is Legion", []),
        ("I, Dorothy Parker, declare", ["Dorothy Parker"]),
        ("closed between Oak Lane and Elm Grove", []),
        ("under THE GRANT DEED of last year", []),
    ],
)
def test_names_behind_greetings_relations_and_labels_and_what_only_looks_like_one(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "患者高血糖，患者无发热，被告应当赔偿。",
        "员工成长记录，客户方面无异议。",
        "部门经理与安全主任均到场。",
    ],
)
def test_everyday_words_behind_a_chinese_role_are_no_names(text):
    assert people(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "The Supreme Court of the United States met on Monday.",
        "The European Court of Human Rights and the Council of Europe agree.",
        "He lived in New York, near Lake Victoria, until June.",
        "On Friday the Ministry of Justice wrote to the Regional Prosecutor General.",
        "Mr A. was heard, and so was Mr Kh.",  # initials alone lead to nobody
        "THE APPLICANT MUST PAY THE COSTS",
        "Nobody is named in this sentence.",
        "",
    ],
)
def test_what_is_no_name_is_none(text):
    assert people(text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Mr Pryx came. Later Quillon Pryx left.", ["Pryx", "Quillon Pryx"]),
        ("Quillon A. Pryx\n1 Elm Road\n\nDear Mr Pryx,", ["Quillon A. Pryx", "Pryx"]),
        ("Mr Pryx; Q. Pryx, Quillon van Pryx", ["Pryx", "Q. Pryx", "Quillon van Pryx"]),
        ("Mr Pryx; in Tollo Wump-Pryx and Pryx–Wump", ["Pryx", "Tollo Wump-Pryx", "Pryx–Wump"]),
        ("Mr Pryx–Wump left; the Pryx-based one", ["Pryx–Wump"]),
        ("Mr Pryx. In Pryx v Quux, Meanwhile Pryx, Court Pryx", ["Pryx"] * 4),
        ("The Pryxons paid. Mr Pryxon paid.", ["Pryxons", "Pryxon"]),
        ("Mr Case lost Case 12. Dr West went West.", ["Case", "West"]),
    ],
)
def test_what_belongs_to_a_surname_found_again(text, names):
    assert people(text) == names


def test_a_surname_counts_wherever_else_it_stands_and_as_long_a_word_it_is():
    text = "Edward Elliott sued. Elliott won; Elliottson lost, and so did McElliott."
    assert people(text) == ["Edward Elliott", "Elliott"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("原告樊孝然,1977年出生。被告钱博俭。", ["樊孝然", "钱博俭"]),
        ("请王先生和李小红女士到场。", ["王", "李小红"]),
        ("患者：欧阳明,男。欧阳明已出院。", ["欧阳明", "欧阳明"]),
        ("被告认为合同无效。", []),
    ],
)
def test_chinese_names(text, names):
    assert people(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "被告：{诸葛亮明}。律师：{王如何}",
        "书记员 {赵六}",
        "甲方（出借人）：{王建国}",
        "出席：\n{王建国}\n{李小红}\n高兴",
        "出席人：{王建国}、{李小红}和{赵六}。",
        "妈妈叫{李小红}，爸爸是{王大明}。",
        "買方：{陳大文}，醫生：{歐陽如何}",
        "{王建国}诉{李小红}离婚纠纷一案。",
        "收款人户名：{王建国}",
        "医生{吴孟超}查房",
        "姓名 | 性别\n--- | ---\n{王建国} | 男\n{李小红} | 女\n\n李小 | 女",
        "编号,姓名\n1,{王建国}\n2,成年\n",
        "患者：{李小红}\n家属：{王小明}",
    ],
)
def test_chinese_labels_lists_and_lawsuits(text):
    assert people(text.replace("{", "").replace("}", "")) == re.findall(r"\{(.*?)\}", text)


@pytest.mark.parametrize(
    "text",
    [
        "家属：同意手术。患者：高血压，黄疸，焦虑。护士：查房",
        "家属：安慰\n签名：\n日期：\n出席：全体人员\n安排：周一",
        "妈妈是高血压患者，爸爸是黄皮肤，被告是安全员。",
        "公司与张家口银行借款合同纠纷一案",
        "户名 余额，签名 陈述，家属 高热，律师：何时开庭",
        "患者：无发热\n温度正常",
    ],
)
def test_what_follows_a_chinese_label_and_is_no_name(text):
    assert people(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "{Quillon Pryx} KC spoke, {Xanthor Quux}, MD, saw him; {Vorlan Wump}, PhD",
        "It was {Quillon Pryx} Esq. whom they asked",
        "{Rafiq} LJ agreed with {Tuckey} LJ; {Pryx} J held so.",
        "{Zedley}, {Wump} and {Pryx} JJ; but Appendix J held, Plan J.",
        '"{Quillon Pryx}" <q@x.org> and Customer Service <s@x.org>',
        "{Quillon Pryx} a écrit : non.\nAm Montag schrieb {Xanthor Quux}:",
        "Mr {J&uuml;rgen Quux}, Mrs {Bronwen&nbsp;Pryx}, Mrs {O&#39;Donnell}",
        "Se&ntilde;or {Jos&eacute;} came",
        "AT&T; Hello\\nMr {Quux}\\nhere",
        "By Dr {John\nQuux}\nConsultant",
        "Dr {John}\nAge 4",
        "Dr {John}\nSurgeon",
        "Mr {Tobias Quux-\nPryx} and Mr {Tobias Ash-\nworth}",
        "Mrs {OʼDonnell} and Mr {O`Brien}",
    ],
)
def test_letters_behind_names_mails_entities_and_line_ends(text):
    assert people(text.replace("{", "").replace("}", "")) == re.findall(r"(?s)\{(.*?)\}", text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("死者唐秀兰之妻子卢雅琴到场。", ["唐秀兰", "卢雅琴"]),
        ("被执行人谭志勇、护士贺小梅", ["谭志勇", "贺小梅"]),
        ("护士常查房，妻子明天来，司机应停车，被执行人未到。", []),
    ],
)
def test_relatives_and_roles_of_proceedings_lead_to_chinese_names(text, names):
    assert people(text) == names


def test_everything_else_is_found_as_before():
    text = "Write to Dorothy Parker, dorothy@example.org, card 6222021234567894, +44 20 7946 0958."
    others = [one for one in found(text) if one[1] != "PERSON"]
    [spans] = Presidio().detect([text])
    assert others == [(text[one.start : one.end], one.label) for one in spans]
    assert people(text) == ["Dorothy Parker"]


def test_options_choose_what_is_looked_for():
    text = "Mr Quist, Dorothy Parker and Sharudi Obrugov: quist@example.org."
    assert people(text, threshold=0.8) == ["Quist"]
    assert people(text, threshold=0.6) == ["Quist", "Dorothy Parker"]
    assert found(text, entities=("PERSON",)) == [
        (name, "PERSON") for name in ("Quist", "Dorothy Parker", "Sharudi Obrugov")
    ]
    assert found(text, entities=("EMAIL_ADDRESS",)) == [("quist@example.org", "EMAIL_ADDRESS")]
    assert people("原告樊孝然", languages=("en",)) == []
    with pytest.raises(UsageError, match=r"^No entity named 'PERSN'\. Did you mean 'PERSON'"):
        found(text, entities=("PERSN",))


def test_it_is_a_plugin_that_says_what_it_does():
    detector = registry.create("detector", "names", {})
    assert "names by titles, lists and endings" in detector.describe()
    assert "no names" not in detector.describe()


WORDS = st.sampled_from(
    [
        "Mr",
        "Dorothy",
        "Parker",
        "the",
        "Court",
        "J.",
        "van",
        "der",
        "Obrugov’s",
        "王",
        "原告",
        "先生",
        "\n",
        ".",
        "’",
        "é",
    ]
)


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_spans_lie_in_the_text_apart_and_alone_as_together(text):
    first, second = Names().detect([text, f"{text}"])
    assert first == second
    ends = 0
    for span in first:
        assert ends <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip() == text[span.start : span.end]
        ends = span.end


def test_it_says_which_labels_it_can_give():
    texts = ["Judge Brown wrote to the court."]
    every = registry.create("detector", "names").labels(texts)
    assert {"PERSON", "EMAIL_ADDRESS"} <= every
    assert not {"LOCATION", "DATE_TIME"} & every
    assert registry.create("detector", "presidio").labels(texts) == every - {"PERSON"}
    alone = registry.create("detector", "names", {"entities": ["PERSON"]})
    assert alone.labels(texts) == {"PERSON"}
    one = {"entities": ["EMAIL_ADDRESS"]}
    assert registry.create("detector", "names", one).labels(texts) == {"EMAIL_ADDRESS"}


@pytest.mark.parametrize(
    ("languages", "texts", "read"),
    [
        (["en", "zh"], ["Er schrieb an Frau Müller.", "王芳住在北京。"], True),
        (["en"], ["王芳住在北京，电话 13812345678。"], False),
        (["zh"], ["She lives in Leeds."], False),
        (["zh"], ["13812345678"], True),  # no letters: nothing that it could not read
        (["en", "zh"], ["Иванов Иван Иванович живёт в Москве, ivanov@example.com"], False),
        (["en", "zh"], ["田中さんはとうきょうにすんでいる。"], False),
        (["en"], ["In English."] * 19 + ["По-русски."], True),  # one in twenty
        (["en"], ["In English."] * 18 + ["По-русски."], False),
    ],
)
def test_no_label_of_names_for_texts_in_a_script_that_it_does_not_read(languages, texts, read):
    labels = registry.create("detector", "names", {"languages": languages}).labels(texts)
    assert ("PERSON" in labels) == read
    assert "EMAIL_ADDRESS" in labels  # rules read every script


@pytest.mark.parametrize(
    "text",
    [
        "被告人{王建国}、{李秀英}犯盗窃罪",
        "原告{张伟}、{李娜}、{王强}诉被告{赵敏}",
        "原告：{张伟}；{李娜}",
        "被告人{王建国}伙同{李秀英}",
        "姓　名：{李小明}　性　别：男",
        "审　判　长　{赵志强}",
        "姓名：{张　伟}",
        "姓　名：{欧阳　娜}",
        "姓名：{古丽娜尔·艾尼瓦尔}，患者{玛丽·史密斯}入院",
        "姓名：{扎西次仁}",
        "姓名：{约翰·史密斯}",
        "姓名：{山本太郎}。患者{田中太郎}入院",
        "被告{张伟}偿还，患者{李娜}血压正常，客户{陈静}持有，被告{刘洋}赔偿",
        "{王建国}，男，1980年1月1日出生",
        "{李秀英}（女，1956年生）",
        "原告{司马相如}诉被告{上官婉儿}离婚纠纷一案",
        "{王建国}与{李秀英}系夫妻关系。",
        "发件人：{张伟}\n寄件人 {李秀英}\n用户：{王建国}\n作者：{赵志强}",
        "Patient: {王建国}; Plaintiff {李秀英} and Mr. {赵志强}, Dr. {李明}",
        "患者“{李娜}”。【姓名】{李秀英}，<td>姓名</td><td>{王建国}</td>",
        "{李明}先生和{王芳}女士",
        "制表人：{李秀英}，\u202a姓名：{王建国}\u202c",
    ],
)
def test_chinese_lists_forms_facts_and_names_of_other_peoples(text):
    assert people(text.replace("{", "").replace("}", "")) == re.findall(r"\{(.*?)\}", text)


@pytest.mark.parametrize(
    "text",
    [
        "姓名：性别：年龄：\n姓名：不详\n户名：北京银行股份有限公司\n签名：\n日期：",
        "成人，男；农民，男；干部，女；患者，男，45岁",
        "患者阿莫西林过敏，患者清水样便，患者周期性头痛，患者凌晨突发胸痛，患者时发热",
        "患者家中无人，患者和家属，医生和护士，客户华东地区居多",
        "用户权限、用户体验，作者简介，审核人：未定，Patient: 高血压",
        "北京·上海·广州，被告中山公司辩称",
    ],
)
def test_chinese_words_in_the_same_places_that_are_no_names(text):
    assert people(text) == []


@pytest.mark.parametrize(
    "text",
    [
        # several people
        "Witnesses: {Ekwueme Odum}, {Sarah Novotna}, {Peter Thorne}",
        "Attorneys: {Xyla Qomo}, {Milo Trask}",
        "The panel: {Ekwueme Odum}, {Anna Grell} and {Peter Thorne}",
        "Attendees: {Garcia Lopez, Maria}; {Odum, Anna}",
        "Dear {Tobias}, {Helga} and {Milan},\nDear {Tobias}/{Helga},\nHello {Helga}. How are you?",
        # capitals
        "Mr {John COX} came, Dr {Wei LI} left, Mr {Quist} MP and Dr {Odum} MD did not.",
        "MR {JOHN VAN DER BERG} CAME",
        "IN THE MATTER OF {JOHN ANDREW SMITH}, DECEASED",
        "Statement of {MARY ANN JONES} taken by me",
        "I, {TOBIAS ASHWORTH}, of London",
        "PATIENT: {VAN DER BERG, PIETER}\nPatient: {DE SILVA}\n{DE LA CRUZ, Maria} paid",
        # ends of lines
        "Mr\n  {Quist} and Dr\r\n{Odum} met Ms \n\t{Grell}.",
        "> The notes were sent back and then she wrote to Mr {Tobias\n> Ashworth}, who had asked.",
        # particles and letters
        "Mr {Rodrigo de los Santos}; Patient: {Sophie in 't Veld}",
        "Name: {Karl von und zu Guttenberg}\nPatient: {Giuseppe dall'Acqua}",
        "Mr {Pieter op den Camp} met Ms {Fatima El Idrissi}.",
        "Mrs {Nguyễn Thị Hồng Nhung} and {Đỗ Mỹ Linh}; Patient: {Can Yılmaz}",
        # what is not read
        "Dr\u3000{Quist}, Mr\u2003{Odum} and \u2066Ms {Grell}\u2069",
        "Dr. **{Quist}**; **Patient Name:** **{Xyla Qomo}**; Patient: `{Milo Trask}`",
        "Patient: ({Xyla Qomo})\nDr (Ms) {Milo Trask} came",
        # what stands beside names
        "{Xyla Qomo}, M.D.\n{Milo Trask}, RN\n{Wexa Tolm}, MRCP(UK), wrote",
        "{J. R. R. Tolkington} signed.\n{W.E.B. Carver} did not.",
        "Supt {Quist}, Det. {Odum}, le docteur {Grell}, Der Zeuge {Trask}, Ông {Horak}",
        "Cardiologist: {Xyla Qomo}\nName (last, first): {Qomo, Xyla}\nNurse on call: {Milo Trask}",
        "{Park Ji-woo} and {SUZUKI Ichiro}; {Ramesh S/o Suresh} R/o Village; {Mohd Faisal Ansari}",
        "姓名：{Xyla Qomo}\n客户{John Smith}于2023年\n患者Mr {Quist}来院",
        '{Helga Grell}: hi\n{Xyla Qomo}: where?\n{Robert "Bob" Quist} left',
    ],
)
def test_names_in_more_layouts(text):
    assert people(text.replace("{", "").replace("}", "")) == re.findall(r"(?s)\{(.*?)\}", text)


@pytest.mark.parametrize(
    "text",
    [
        "Major Depressive Disorder, Major Haemorrhage, Major Trauma Centre, Chief Nursing Officer",
        "Officer Misconduct; Nurse Led Clinic; Doctor Notes; seen by a doctor. That day he left",
        "Witness: Correct.\nPatient: Okay\nUser: Summarize\nClient: Barclays\n\nRegards,\nAccounts",
        "St Mary's Hospital, St Thomas' Hospital, St Andrews University",
        "He left Austin, Texas for Hong Kong, Los Angeles and Abu Dhabi.",
        "Wells Fargo, Magna Carta, Stevens Johnson syndrome",
        "Dear Sir or Madam,\nDear Colleagues and Friends,\nHello World. How are you?",
    ],
)
def test_what_is_written_like_names_and_is_none(text):
    assert people(text) == []
