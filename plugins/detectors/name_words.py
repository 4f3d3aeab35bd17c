"""Words around names of people, and words that begin with a capital and are none."""

from fedaudit.pii import person_roles

TITLES = (
    *("Mr", "Mrs", "Ms", "Miss", "Mx", "Messrs", "Dr", "Prof", "Professor", "Sir", "Dame", "Rev"),
    *("Reverend", "Herr", "Herrn", "Frau", "Monsieur", "Madame", "Mme", "Mmes", "Mlle", "Señor"),
    *("Señora", "Sr", "Sra", "Srta", "Signor", "Signora", "Sig", "Doña", "Dhr", "Mevr", "Mevrouw"),
    *("Sheikh", "Capt", "Lt", "Sgt", "Col", "Fru", "Pan", "Pani", "Sayın", "Daw", "Cllr", "HHJ"),
    *("Brig", "Alhaji", "Alhaja", "Hajia", "Engr", "Maître", "Dra", "Dña", "Srs", "Drs", "Profs"),
    *("Familie", "Eheleute", "Oberarzt", "Oberärztin", "Richterin", r"Adm\.", r"Barr\.", r"MM\."),
    *(r"Lic\.", r"Ing\.", r"Avv\.", r"Dott\.(?:ssa)?", r"Sig\.(?:ra|na)", r"D\.ª"),
    *(r"Dipl\.-\p{Lu}\p{Ll}+", "maître", "juge", "juez", "jueza", "juiz", "juíza", "giudice"),
    *("Cpl", "Pte", "Supt", r"Insp\.", r"Det\.", r"Maj\.", "Cdr", "Cmdr", "Atty", r"Fr\.", "Shri"),
    *("Shrimati", "Smt", "Kumari", "Ông", "Bà", "Doktor", r"Hr\.", r"Msgr\."),
    *(r"(?:docteure?|doctora?|doutora?|dottor(?:essa)?)(?!\.)", "Rechtsanw(?:alt|ältin)"),
)
"""Regular expressions of what stands before the name of a person only."""
SMALL_TITLES = (
    *("mr", "mrs", "ms", "dr", "drs", "dhr", "prof", "miss", "señora?", "señorita", "signora?"),
    *("signorina", "monsieur", "madame", "mademoiselle", "heer", "mevrouw", "mejuffrouw", "herrn?"),
    *("frau", "senhora?", "dra", "sra", "srta", "doña", "fru", "frøken", "pan[iíaeu]", "panią"),
    *(r"prof\.ssa", r"sig\.(?:r?a|na)?", r"dott\.(?:ssa)?", r"avv\.", r"ing\.", r"lic\."),
    *(r"mw\.", r"hr\.", r"adw\.", r"mec\.", r"m(?:me|lle)", "maître"),
)
"""Titles that are written in small letters, too."""
OFFICES = (
    *("Doctor", "Lady", "Lord", "Judge", "Justice", "Captain", "Major", "Colonel", "Lieutenant"),
    *("Sergeant", "Officer", "Inspector", "Detective", "Constable", "Senator", "Nurse", "Imam"),
    *("Rabbi", "Father", "Sister", "Brother", "Aunt", "Uncle", "Hon", "President", "Archbishop"),
    *("Registrar", "Recorder", "Sheriff", "Superintendent", "Corporal", "Pharmacist", "Paramedic"),
    *("Barrister", "Advocate", "Adv", "Chief", "Councillor", "DI", "DC", "DS", "DCI", "PC", "WPC"),
    *("Me", "Richter", "Justices", "Judges", "Lords", "époux", "épouse", "née", "né", "geb"),
    *("Bishop", "Cardinal", "Pastor", "Vicar", "Magistrate", "Matron", "Surgeon", "Midwife"),
    *("Coroner", "Trooper", "Commander", "Admiral", "Brigadier", r"Gen\.", "Zeugen?", "Zeugin"),
    *("Kläger(?:in)?", "Beklagte[rn]?", "Angeklagte[rn]?", "Schwester", "Pfleger", "Bayan", "sr"),
)
"""What also stands before other words: Justice Department, Sister Company."""
PLURAL_TITLES = r"Messrs|MM\.|Mmes|Drs|Srs|Profs|Justices|Judges|Lords|Eheleute|époux"
"""Titles of several people, each of whom may have a single word for a name."""
NUMBERED_TITLES = "PC|WPC|DC|DS|Sgt|Sergeant|Constable|Officer"
"""Ranks whose number may come before the name: PC 4312 Ekwueme."""
DEGREES = "med|jur|iur|phil|rer|nat|pol|oec|dent|vet|habil|h\\.\\s?c|e\\.\\s?h|mult|ing|techn"
"""Small words between a title and a name: Dr. med., Dr. rer. nat."""
PARTICLES = (
    "de|da|do|dos|das|del|della|delle|di|du|des|la|le|lo|los|las|van|von und zu|von|vom|der|den"
    "|ter|ten|te|zu|zum|zur|af|av|bin|ibn|bint|binti|ben|ould|el|al|y|e|['’]t"
    "|(?:in|op|uit|aan|over|onder|bij) (?:den?|het|['’]t)"
)
_IN_CAPITALS = "DE DA DO DOS DAS DEL DI DU LA LE LOS LAS VAN VON DER DEN TER TEN ZU EL AL BIN"
PARTICLES_IN_CAPITALS = frozenset(_IN_CAPITALS.split())
_OF_PEOPLE = "van von vom ter ten zu zum zur af bin ibn bint binti"
OF_PEOPLE = frozenset(_OF_PEOPLE.split())
"""Particles that are hardly ever in the name of a place."""
ROLES = (
    *sorted(person_roles.ROLES - {"agent", "party", "staff"}),
    *("name", "names", "signed", "present", "surname", "forename", "nom", "prénom", "nombre"),
    *("apellidos", "nome", "cognome", "naam", "navn", "imię", "nazwisko", "jméno", "soyad"),
    *("vorname", "nachname", "absent", "seen", "checked", "approved", "operator"),
    *("alias", "remitter", "witnesses", "apologies", "invitees", "signatories", "klant"),
    *("patiënt", "médica", "an(?:a)?esthetist", "patienten(?:name)?"),
    "(?:full|first|last|user)name",
    *("provider", "attending", r"\p{L}+(?:ologist|iatrist|iatrician|opedist)"),
    r"(?:witnessed|dictated|referred|reviewed|authori[sz]ed|prepared|written|issued|reported"
    r"|requested|completed|examined|interviewed|recorded|typed|submitted|sold|received|verified"
    r"|drafted|taken|made)[\s_](?:by|for)",
)
"""Regular expressions of the last words of labels and headings whose values are people."""
SURNAME_LABELS = frozenset(
    ("surname", "lastname", "nachname", "cognome", "apellidos", "nazwisko", "soyad")
)
LIST_LABELS = frozenset(("to", "cc", "bcc", "present", "absent", "attn"))
"""Labels of several people; so are those that end in s."""
_LOOSE_LABELS = (
    "present absent seen checked approved mother father husband wife spouse daughter son brother "
    "sister partner provider attending"
)
LOOSE_LABELS = frozenset(_LOOSE_LABELS.split())
"""Labels of findings and of a family's illnesses as well: one unknown word is no name there."""
_OF_FIRMS = (
    "client customer vendor supplier buyer seller purchaser lender creditor payee payer insured"
)
OF_FIRMS = frozenset(_OF_FIRMS.split())
"""These also label companies, so unknown words after them are not taken for a name."""
_OF_THINGS = "holder host member owner user neighbou?r colleague friend partner roommate"
OF_THINGS = frozenset(_OF_THINGS.split())
"""Words before brands, groups and places, too: "member Unison"; the word behind need be known."""
_LEGAL_FORMS = (
    "Ltd Limited LLP LLC PLC plc Inc Corp Co GmbH AG SpA BV NV Pty Oy AB Bhd Srl KG Holdings"
)
LEGAL_FORMS = tuple(_LEGAL_FORMS.split())
"""What ends the name of a company."""
PLACE_LABELS = frozenset(
    ("from", "to", "present", "absent", "seen", "checked", "approved", "contact")
)
"""Labels behind which a word that is a name as well is more likely a place or a month."""
THINGS = (
    "company|business|firm|trade|brand|generic|proprietary|test|drug|medicine|medication|product"
    "|item|device|bank|branch|file|folder|document|form|project|study|trial|course|school|college"
    "|hospital|clinic|ward|department|team|group|organi[sz]ation|employer|agency|site|place|room"
    "|building|property|street|road|town|city|country|domain|host|server|database|table|column"
    "|field|variable|function|class|package|event|plan|scheme|fund|ship|vessel|species|pet"
)
"""Things that have names, and are not people: Drug name, File name."""
_PLACEHOLDERS = (
    "admin administrator all anonymous anybody both confidential everybody everyone female guest "
    "male localhost myself na nil no none not other others pending redacted root same self "
    "several staff tba tbc tbd unassigned unavailable unknown unnamed vacant various withheld yes"
)
PLACEHOLDERS = frozenset(_PLACEHOLDERS.split())
"""What is put in for a name that is not there."""
RELATIONS = (
    *("husband", "wife", "son", "daughter", "brother", "sister", "mother", "father", "mum"),
    *("dad", "uncle", "aunt", "cousin", "nephew", "niece", "partner", "fianc[ée]e?", "friend"),
    *("neighbou?r", "colleague", "roommate", "widow", "widower", "twin", "grandson", "stepson"),
    *("granddaughter", "stepdaughter", "grandmother", "grandfather", "sibling"),
)
FOREIGN_RELATIONS = (
    *("hij[oa]", "herman[oa]", "marido", "espos[oa]", "mujer", "madre", "padre", "prim[oa]"),
    *("fille", "fils", "mari", "femme", "frère", "sœur", "soeur", "mère", "père", "neveu"),
    *("figli[oa]", "fratello", "sorella", "marito", "moglie", "filh[oa]", "irmão", "irmã", "mãe"),
    *("pai", "mulher", "dochter", "zoon", "broer", "zus", "vrouw", "echtgeno(?:ot|te)", "moeder"),
)
"""Kin in languages that write nouns in small letters."""
PEOPLE = (
    *("baby", "boy", "girl", "patient", "resident", "tenant", "pupil", "student", "nurse"),
    *("midwife", "carer", "worker", "deceased", "witness", "appellant", "accused", "detainee"),
    *("prisoner", "passenger", "employee", "apprentice", "caretaker", "lodger", "minor"),
)
"""Words that only people are called by: claimants and clients may be companies."""
_BUILDINGS = (
    "street road avenue house square terrace court school hospital station cottage villa lodge"
)
BUILDINGS = frozenset(_BUILDINGS.split())
"""What hardly any person is called by, unless a title stands before it."""
_PLACE_WORDS = (
    "lane hill park church bridge company law mayor close way mountain post river lake drive"
)
PLACE_WORDS = BUILDINGS | frozenset(_PLACE_WORDS.split())
"""What a place or an institution is called by its last word, and some people by their surname."""
CLOSINGS = (
    r"(?:(?:kind|best|warm(?:est)?|many|with)\s+)*(?:regards|wishes|thanks|greetings)"
    r"|(?:yours\s+)?(?:sincerely|faithfully|truly)(?:\s+yours)?|yours|cheers|respectfully|best"
    r"|signed|mit freundlichen grüßen|viele grüße|cordialement|atentamente|cordiali saluti"
)
"""The line before a signature."""
CARD_FIELDS = (
    r"age|d\.?o\.?b|date|birth|born|sex|gender|address|tel|telephone|phone|mobile|e-?mail|nhs|mrn"
    r"|ward|id|number|occupation|nationality|marital"
)
"""What the line below the name on a record card begins with."""
BEFORE_PLACES = r"(?:\b(?:in|at|near|the|a|an|on|off|towards?|visit(?:ed)?|across|around|\d+)\s+)$"
_DOTTED = r"\.?"
_LETTERS_BEHIND = (
    "KC QC SC MD PhD DPhil PsyD PharmD EdD DSc BSc MSc MPhil MBA LLB LLM LLD JD Esq FRCS FRCP FRCA "
    "FRCR FRCGP FRCOG FRCPath FRCPsych FACS FACP MRCP MRCS MRCGP MRCOG MRCPsych MBBS MBChB OBE MBE "
    "CBE DBE KBE RN RGN RMN BSN MSN DNP LPN CRNA DDS DMD DVM JP MEP CPA FCA CFA SpR SHO"
)
LETTERS_BEHIND = (
    f"(?:{'|'.join(map(_DOTTED.join, _LETTERS_BEHIND.split()))})"
    r"\.?(?:\(\w+\))?(?!\w)"
)
"""Degrees, orders and posts behind a name, with dots or without: M.D., MRCP(UK)."""
NEXT_TO_PEOPLE = (
    rf"\s*,?\s*(?:{LETTERS_BEHIND}|(?:a\s[ée]crit|ha\sscritto|escribió|escreveu)\b"
    r"|:\s(?i:hello|hi|hey|thanks|thank you|sorry|good (?:morning|afternoon|evening))\b"
    r"|(?:who|whose|whom|aged|born|said|says|told|wrote|writes|called|signed|asked|answered"
    r"|complained|moved|agreed|refused|explained|replied|joined|lives|lived|works|worked|claims"
    r"|stated|argued|alleged|phoned|and\s+(?:his|her))\b)"
)
_CLINICAL = (
    "Abdomen Abscess Acute Allergy Angina Ankle Asthma Bladder Bleed Bowel Brain Breast Breath "
    "Bruise Cardiac Cancer Chest Chronic Cough Cramp Dementia Diabetes Disease Disorder Dizzy "
    "Eczema Epilepsy Eye Failure Fatigue Fever Flu Fracture Gout Headache Heart Hernia Hip "
    "Infarct Influenza Injury Itch Jaw Joint Kidney Knee Latex Leg Limb Liver Lung Lupus Lymph "
    "Malaria Migraine Mouth Murmur Muscle Nausea Nerve Nose Oedema Ovary Pain Pains Palsy Pelvis "
    "Pneumonia Rash Rigors Scan Serum Shortness Shoulder Skin Sodium Spine Stomach Stroke Sweats "
    "Syncope Syndrome Throat Thyroid Tremor Tumor Tumour Type Ulcer Urine Vein Virus Vomit Wheeze "
    "Wound Wrist Xray"
)
"""Findings and parts of the body; those that are surnames as well are left out."""
_REPLIES = (
    "absolutely agreed alright certainly correct definitely denied exactly fine "
    "hmm indeed maybe nope objection okay overruled perhaps please probably proceed quite "
    "right sorry sure sustained true understood welcome yeah yep "
    "describe draft explain generate list rewrite rephrase suggest summarise summarize translate "
    "smoker vegan vegetarian teetotal diabetic asthmatic drinker alert stable well"
)
"""What people say, ask for, and are, behind the label of who says it."""
_COMPANIES = (
    "Aldi Allianz Amazon Apple Asda Aviva Axa Barclays Boeing Bupa Citibank Deloitte Facebook "
    "Google Halifax Hsbc Ikea Lidl Lloyds Mastercard Microsoft Natwest Netflix Nokia Oxfam Paypal "
    "Pfizer Ryanair Sainsburys Samsung Santander Spotify Tesco Toyota Uber Unilever Vodafone "
    "Volkswagen Walmart"
)
"""Companies that are clients as well."""
_NO_NAMES = (
    "A Accounts Administrative Adverse Advice Airport Amendments An Annex Appendix Applicant "
    "April Apt Army Articles Asia Assembly Association Attn August Austrian Avenue Battalion Bay "
    "Beach Bench Bishop Branch Bridge Brigade Bulgarian Bureau Catholic Centre Chamber Chancellor "
    "Chapter Charter Chechen Christian Claimant Clerk Clinic Club Coast Code Comics Commission "
    "Committee Communist Complaint Complaints Complex Conservative Constable Constitution "
    "Constitutional Contract Convention Corporation Council County Courts Crescent Crew Crimes "
    "Criminal Croatian Currency Danish Dear December Declaration Decree Defendant Department "
    "Depressive Depute Directive District Division Dphil Duma Dutch Elect Empire Enclosed England "
    "English Esq Europe European Exhibit Fao February Finnish Florence Following Forces Fort "
    "Foundation Freedoms Friday Furthermore Games Gardens Gazette German Glands Governor Greek "
    "Grove Gulf Haemorrhage Hill Hills I Inc Incident Independent Infirmary Institute Islamic "
    "Italian January Jewish Journal Judge Judgment July June Kurdish Labour Lake Landing Lane "
    "League Led Liberal Limited London Ltd March Mayor Metro Mews Minister Ministers Ministry "
    "Misconduct Monday Moreover Mount Mountain Mountains Muslim Norwegian Notes November October "
    "Offence Offender Orthodox Paris Park Parliament Patient Phd Plaintiff Polish Port Post "
    "Practitioner Prescriber Press Principal Prison Programme Prosecutor Protestant Province "
    "Provost Pt Pts Punishment Regards Regiment Register Registry Rights River Romanian Rules "
    "Russia Safety Sales Sankt Santa Saturday Schedule Scotland Secretary Select Senate September "
    "Serbian Shareholder Ship Sincerely Socialist Spanish Spiritual Square Statute Suite Sunday "
    "Supreme Surgery Swedish Swiss Sydney Tablets Tender Terrace Therefore Thursday Times Trauma "
    "Treaty Triage Tribunal Tuesday Turkish Turnpike Ukrainian Union University Valley Via "
    "Village Wales Ward Wednesday Wing Witness Yours"
)
NO_NAMES = frozenset(
    (*_NO_NAMES.split(), *_CLINICAL.split(), *_REPLIES.title().split(), *_COMPANIES.split())
)
"""Institutions, places, peoples, days, months, and what sentences begin with."""
NO_PEOPLE = (
    "Abu Dhabi|Addis Ababa|Baton Rouge|Buenos Aires|Cape Town|Corpus Christi|Costa Rica|El Paso"
    "|El Salvador|Fort Worth|Hong Kong|Kings Lynn|Kuala Lumpur|Las Palmas|Las Vegas|Los Alamos"
    "|Los Angeles|Milton Keynes|Monte Carlo|North Carolina|Port Louis|Rio Grande"
    "|San Antonio|San Diego|San Francisco|San Jose|San Marino|Santa Barbara|Santa Fe"
    "|Santa Monica|Santo Domingo|Sierra Leone|South Carolina|Sri Lanka|Tel Aviv|West Virginia"
    "|Amicus Curiae|Habeas Corpus|Magna Carta|Mens Rea|Actus Reus|Res Judicata|Rome Statute"
    "|Stare Decisis|Goldman Sachs|Wells Fargo|Morgan Stanley|Merrill Lynch|Ernst Young"
    "|Johnson & Johnson|Charles Schwab|Marks & Spencer|Rolls Royce"
    "|Stevens[ -]Johnson|Guillain[ -]Barré|Wolff[ -]Parkinson|Ehlers[ -]Danlos"
    "|Creutzfeldt[ -]Jakob|Johns Hopkins"
)
"""Places, terms of law, firms and diseases that are written like names."""
