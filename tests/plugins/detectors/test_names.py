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


CASES = {
    "names are found": [
        "The case was heard by Mr {Gayk Levonovich Sarkisyan}.",
        "He wrote to Dr. {Quist}, who answered.",
        "It was signed by {Dorothy Parker} and {Musa Zabiyev}.",
        "A letter of {Ludwig van der Berg} came.",
        "In the afternoon {Sharudi Obrugov} left.",
        "It was {J. Smith}'s car.",
        "Mr {Acar}'s house and {Acar}'s field.",
        "{Şevket Epözdemir} was a lawyer.",
    ],
    "marks around a name are no part of a word": [
        "'{Tobias Grell}' saw 'Dr {Odum}'. VALUES ('{Helga Grell}');",
        "1.{Helga Grell}\n-{Milan Odum}\n_{Anna Odum}_",
        "helga.Grell@x.org, www.Helga.Grell.org, my_Helga Grell.txt, d'Helga",
        "@{Helga Grell}, see <{Milan Odum}>",
        "<{Milan Odum}>",
        "{Mary-Kate McDonald} left.",
        "Dear Mr\n{Grell}\nand Dr.\n{Odum}, hello",
        "Present: Dr\nKind regards",
    ],
    "a title may be a surname and a surname short": [
        "By Dr {Pan}. Ms {Pan Wei} and Pani {Pan Wei} left.",
        "Sir {John Major} met Mr {Major} and Mrs {Judge}.",
        "Name: {Pan Wei}",
        "Pan {Kowalski} and Mr Justice {Grell}",
        "Prof Dr said so, Lt Col {Odum} too, and the Lord Major.",
        "Ask Ms {Yu}. See Dr. {Xu}. Then Mr. {Ng}. And Mr Kh. left.",
    ],
    "titles of offices and of other languages": [
        "Cllr {Quux}, DI {Quux}, HHJ {Quux}, Brig. {Quux} and Adm. {Quux}",
        "President {Quux} saw Registrar {Quux}, Recorder {Quux} and Sheriff {Quux}.",
        "Pharmacist {Quux}, PC 4312 {Quux} and Police Constable 77 {Quux}",
        "Chief {Quux}, Alhaji {Quux}, Engr. {Quux}, Barr. {Quux}, Advocate {Quux}, Adv. {Quux}",
        "Me {Quux}, la juge {Quux}, les époux {Quux}, MM. {Quux}, Maître {Quux}",
        "La Dra. {Quux}, Dña. {Quux}, D.ª {Quux}, el juez {Quux}",
        "L'Avv. {Quux}, la Dott.ssa {Quux}, la Sig.ra {Quux}",
        "Richterin {Quux}, Oberarzt {Quux}, Familie {Quux}, Dipl.-Psych. {Quux}, Prof. Dr. h.c. "
        "mult. {Quux}",
        "dhr. {Quux}, mr. {Quux}, Drs. {Quux}",
        "Frau {Quux}, geb. {Quux}, née {Quux}",
    ],
    "a plural title is that of several": [
        "Justices {Quux} and {Pryx}; Drs {Wump}, {Voom} and {J. Zedley}",
        "Messrs {Quux} & {Pryx}, MM. {Wump} et {Voom}",
        "Drs {Quux} and May",  # a month rather than a colleague
        "Dr {Quux} and Pryx; Messrs {Quux}, Leeds",
        "Mrs {'t Hooft} saw Mr {St. John-Smythe}.",
    ],
    "titles that are none": [
        "Chief Complaint: pain; Chief Executive, Chief Constable, the Chief Inspector of Schools",
        "PC World, DC Comics, Corporal Punishment, Love Me Tender",
        "the Advocate General, a Superintendent Registrar, Sheriff Court, the President of France",
        "née en 1970, geb. 1970, St. Mary",
    ],
    "every name of a list is found by its label or heading": [
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
    "what stands behind such a label and is no person": [
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
    "names that are words behind a label or a greeting": [
        "Patient: {May West}\nName: {Florence}\nNurse: {Hope}",
        "Dear {Will},\nhello",
        "Hi {May}, will you come in May?",
        "| First name | Surname |\n| --- | --- |\n| {Will} | {Park} |",
    ],
    "a first name that is a word is one before a particle": [
        "Claimant: {Jan de Souza}\nName: {Vincent van Gogh}",
        "Dear {Jan de Vries},",
        "So {Will van der Berg} met {Hope van Dyke}.",
        "He was in Paris de facto, and in May a lot.",
    ],
    "the next label is no part of a name": [
        "Patient: {Helga Grell} Consultant: {Petra Odum}",
        "NAME: {HELGA GRELL} SEX: F",
        "Vorname: {Käthe} Nachname: {Grell} Geschlecht: W",
        "First Name: {Helga} Last Name: {Grell}",
        "{Helga Grell}: hello\n[12:30] {Milan Odum}: hi",
        "Discharge summary for the patient who is named {Helga Grell}\nDiagnosis: asthma",
        "The court in the old city of Leeds heard Mr {Tobias Grell}\nHaving heard him, it rose",
        "The letter that came in the morning was for Mr {Tobias\nGrell} and is here.",
    ],
    "invisible characters and a doubled space divide no name": [
        "{Tobias Ash\xadworth} saw Mrs {Ka\u200bthe Odum}.",
        "Name: {Helga  Grell}; Dr  {Odum}",
        "{Dorothy Grell}  Consultant",
        "原告{王\u200b建国}起诉。",
    ],
    "names are found in the layouts of letters and tables": [
        "Ask Mr {Grell}. Was Mrs. {Odum} there?",
        "Mr {de Kuyper} met Ms {al-Fassi} and Dr {von Trenk}.",
        "By Prof. Dr. med. {Grell} and Mr {MCGREW}.",
        "the son of Mrs {Lake} saw {Florence Park} and {Jordan Hill}",
        "{Grell, Dorothy}\nBorn: 1970",
        "{Anne-Marie Grell} and {J. R. Odum} left.",
        "Present\n{Dorothy Grell}\n{Xyla Qomo}\nThe talk began.",
        "Nurse: {Xyla Qomo}\nBed: 4",
        "Name\tWard\n{Xyla Qomo}\tNorth\n",
        "| Name | Ward |\n| --- | --- |\n| {Xyla Qomo} | North |",
        "<td>{Dorothy Grell}</td><td>Bed Four</td>",
        "{Dorothy Grell}      Consultant",
        "All is well.\n\nKind regards,\n{Xyla Qomo}\nHead of Sales",
        "Hi {Dorothy}, are you in?",
        "Many thanks {Dorothy}, it came.",
        "Patient {Dorothy} slept; the twin, {Musa}, did not.",
        "The widow, {Xyla Qomo}, and {Dorothy} or {Musa Grell}",
        "Professor Emerita {Xyla Qomo} saw {Wexa Tolm-Parker}.",
        "Patient Safety met in Victoria Wing; Odum Street, London",
        "a sentence of some length that a page broke off at {Dorothy\nGrell}, who was there.",
    ],
    "names behind greetings relations and labels and what only looks like one": [
        "Good evening {Qomo}, the taxi is here.",
        "her brother {Marko} and his wife {Odum}",
        "Hello, my name is {Dorothy} and I sell tea.",
        "Guarantor: {Xyla Qomo}\nRate: 4",
        "Vino la señora {Odum} con el señor {Grell}.",
        "{Jean-Dorothy Qomo} phoned",
        "THE BUYER, {DOROTHY PARKER}, PAID",
        "| Name | Post |\n| --- | --- |\n| {Xyla Joshi} | Cook |\n| {Qoming Joshi} | Maid |",
        "{Odumidis, Xylios}\nWard: 4\nDiet: none",
        "See you.\n\nBest\n{Xyla}",
        "Dear Tenant, the lift is broken.",
        "this is Paris, and my name is Legion",
        "I, {Dorothy Parker}, declare",
        "closed between Oak Lane and Elm Grove",
        "under THE GRANT DEED of last year",
    ],
    "everyday words behind a chinese role are no names": [
        "患者高血糖，患者无发热，被告应当赔偿。",
        "员工成长记录，客户方面无异议。",
        "部门经理与安全主任均到场。",
    ],
    "what is no name is none": [
        "The Supreme Court of the United States met on Monday.",
        "The European Court of Human Rights and the Council of Europe agree.",
        "He lived in New York, near Lake Victoria, until June.",
        "On Friday the Ministry of Justice wrote to the Regional Prosecutor General.",
        "Mr A. was heard, and so was Mr Kh.",  # initials alone lead to nobody
        "THE APPLICANT MUST PAY THE COSTS",
        "Nobody is named in this sentence.",
        "",
    ],
    "what belongs to a surname found again": [
        "Mr {Pryx} came. Later {Quillon Pryx} left.",
        "{Quillon A. Pryx}\n1 Elm Road\n\nDear Mr {Pryx},",
        "Mr {Pryx}; {Q. Pryx}, {Quillon van Pryx}",
        "Mr {Pryx}; in {Tollo Wump-Pryx} and {Pryx–Wump}",
        "Mr {Pryx–Wump} left; the Pryx-based one",
        "Mr {Pryx}. In {Pryx} v Quux, Meanwhile {Pryx}, Court {Pryx}",
        "The {Pryxons} paid. Mr {Pryxon} paid.",
        "Mr {Case} lost Case 12. Dr {West} went West.",
    ],
    "chinese names": [
        "原告{樊孝然},1977年出生。被告{钱博俭}。",
        "请{王}先生和{李小红}女士到场。",
        "患者：{欧阳明},男。{欧阳明}已出院。",
        "被告认为合同无效。",
    ],
    "chinese labels lists and lawsuits": [
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
    "what follows a chinese label and is no name": [
        "家属：同意手术。患者：高血压，黄疸，焦虑。护士：查房",
        "家属：安慰\n签名：\n日期：\n出席：全体人员\n安排：周一",
        "妈妈是高血压患者，爸爸是黄皮肤，被告是安全员。",
        "公司与张家口银行借款合同纠纷一案",
        "户名 余额，签名 陈述，家属 高热，律师：何时开庭",
        "患者：无发热\n温度正常",
    ],
    "letters behind names mails entities and line ends": [
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
    "relatives and roles of proceedings lead to chinese names": [
        "死者{唐秀兰}之妻子{卢雅琴}到场。",
        "被执行人{谭志勇}、护士{贺小梅}",
        "护士常查房，妻子明天来，司机应停车，被执行人未到。",
    ],
    "chinese names whose given names are left out": [
        "被害人{张某}与证人{陈某甲}，{刘某1}系{李某某}之兄。",
        "顾客{夏*雨}取款，被告{薛××}未到。",
        "某日，某公司向某银行借款，许某种原因，长×宽×高",
    ],
    "chinese names by which people call each other": [
        "{老王}昨天跟{小李}说，把材料交给{陈姐}。",
        "[09:12] {阿强}：在吗",
        "老师给小费，小于五，小苏打、小区、老家和大姐",
    ],
    "chinese names without a role by what a clause says of them": [
        "{杜小康}来到派出所，{袁弘}的妻子{张歆艺}的账户，{谢敏}向法庭提交借条。",
        "{孟庆华}与{孟庆兰}法定继承纠纷；{朱敏}诉平安银行股份有限公司信用卡纠纷",
        "{扎西次仁}，藏族；{玛丽·安·琼斯}为其妻。",
        "银行与公司金融借款合同纠纷；其父母健在；那位女士；公司于2010年去除",
    ],
    "people and firms": [
        "{Blake Harrison} spoke for Blake Harrison LLP and Conti Ceramics Ltd.",
        "Client: Quantum Leap\nClient: COMPANY\nClient: ACME\nClient: {Ravi Menon}",
        "We met {Anna Grell}, {Xyla Qomo} and {Peter Thorne}.",
    ],
    "places that begin like a name": [
        "Rose Cottage, Park Lane, Victoria Villa and Martha's Vineyard",
        "Lady {Rosalind Ferrars} gave up Ferrars Court.",
        "{Florence Adjei} is a nurse; Florence is not.",
    ],
    "one word with a capital behind a relative or a role": [
        "her husband {Cheikh} and the registrar ({Ahmed}), a member Unison has",
        "It was read by {Nakamura}, the duty registrar. Lead surgeon - {Achterberg}.",
        "[10:14] {Kelechi}: morning\n10:15 Bloods: taken",
    ],
    "names in small letters that are spoken to": [
        "hi {sandra}, my name is {sandra bouvier} and i spoke to {aisha mohammed}.",
        "hi mate, hello team, my name is on the list",
    ],
    "titles in small letters, also before names in small letters": [
        "L'avv. {Sartori}, il sig. {Pellegrino}, la sig.ra {Moretti} e la prof.ssa {Ferri}.",
        "La sra. {Echeverría} y el dr. {Iturbe}; o senhor {Tavares} e a dra. {Nóbrega}.",
        "mw. {Hofstra} en dhr. {Wiersma}; Retten hørte hr. {Kjeldsen} og fru {Bloch}.",
        "Sąd wezwał pana {Wróblewskiego} oraz panią {Sikorską}.",
        "seen by dr {khan}, mr {patel}'s wife and ms {karen o'neill}",
        "the dr said the mr box is empty",
        "the sr. Engineer, the prof level and the dr room",
    ],
    "unlisted names behind a label, also such as end like nouns": [
        "name: {Odalric Penhallurick}\nPatient: {Thessaly Fennicall}",
        "Name: Abdominal Distension\nSeen: Bilateral Crepitation",
        "the applicant, Mr {O‘Grady}",
        "患者{王}先生入院",
    ],
    "relatives in other languages": [
        "su hija {Lucía} y su marido {Íñigo}; sa fille {Chloé}, son mari {Gaël}",
        "Suo marito {Gualtiero}; zijn dochter {Femke}; Your daughter {Jin-ah} was seen.",
        "son Excellence, sa Majesté, su Señoría, mi Casa es tu Casa",
    ],
    "who signs at the end of a line": [
        "Please send the form back. Thanks, {Faith}",
        "I will be late. Many thanks, {Rosalind Achterberg}\nOk great! Cheers, {Tamsin}",
        "Done. Thanks, Support Team\nPlease pay. Kind regards, Billing\nThanks, London office",
    ],
    "what tells a name from an ancestor's": [
        "{William Gates III}, {Robert Downey Jr}. and {Sammy Davis, Jr.}, came",
        "World War II, Type II Diabetes and Phase III Trial",
    ],
    "items of a list that are words as well": [
        "1. {Ahmed Hassan}\n2. {Joy Will}\n3. {Mark Bond}",
        "1. {Ahmed Hassan}\n2. Park Lane\n3. {Mark Bond}",
        "1. Rent\n2. Joy Division\n3. Mark Up",
    ],
    "what stands around a name is no part of it": [
        "Mr {John Smith} UK and Pt {MWANGI, Grace Wanjiru} DOB",
        "Signed: {R. K. Narang}, Branch Manager",
        "The applicant, {Dimitrios\nPapadakis}, is a Greek national.",
        "Put A. `Size` and B. `Total` there.",
    ],
}
"""Texts in which exactly the marked names are found."""


@pytest.mark.parametrize("text", [text for texts in CASES.values() for text in texts])
def test_the_marked_names_are_found_and_no_others(text):
    assert people(re.sub("[{}]", "", text)) == re.findall(r"(?s)\{(.*?)\}", text)


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


def test_a_surname_counts_wherever_else_it_stands_and_as_long_a_word_it_is():
    text = "Edward Elliott sued. Elliott won; Elliottson lost, and so did McElliott."
    assert people(text) == ["Edward Elliott", "Elliott"]


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
