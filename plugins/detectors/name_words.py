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
)
"""Regular expressions of what stands before the name of a person only."""
OFFICES = (
    *("Doctor", "Lady", "Lord", "Judge", "Justice", "Captain", "Major", "Colonel", "Lieutenant"),
    *("Sergeant", "Officer", "Inspector", "Detective", "Constable", "Senator", "Nurse", "Imam"),
    *("Rabbi", "Father", "Sister", "Brother", "Aunt", "Uncle", "Hon", "President", "Archbishop"),
    *("Registrar", "Recorder", "Sheriff", "Superintendent", "Corporal", "Pharmacist", "Paramedic"),
    *("Barrister", "Advocate", "Adv", "Chief", "Councillor", "DI", "DC", "DS", "DCI", "PC", "WPC"),
    *("Me", "Richter", "Justices", "Judges", "Lords", "époux", "épouse", "née", "né", "geb"),
)
"""What also stands before other words: Justice Department, Sister Company."""
PLURAL_TITLES = r"Messrs|MM\.|Mmes|Drs|Srs|Profs|Justices|Judges|Lords|Eheleute|époux"
"""Titles of several people, each of whom may have a single word for a name."""
NUMBERED_TITLES = "PC|WPC|DC|DS|Sgt|Sergeant|Constable|Officer"
"""Ranks whose number may come before the name: PC 4312 Ekwueme."""
DEGREES = "med|jur|iur|phil|rer|nat|pol|oec|dent|vet|habil|h\\.\\s?c|e\\.\\s?h|mult|ing|techn"
"""Small words between a title and a name: Dr. med., Dr. rer. nat."""
PARTICLES = (
    "de|da|do|dos|das|del|della|delle|di|du|des|la|le|lo|van|von|vom|der|den|ter|ten|te|zu|zum"
    "|zur|af|av|bin|ibn|bint|binti|ben|ould|el|al|y|e|['’]t"
)
_OF_PEOPLE = "van von vom ter ten zu zum zur af bin ibn bint binti"
OF_PEOPLE = frozenset(_OF_PEOPLE.split())
"""Particles that are hardly ever in the name of a place."""
ROLES = (
    *sorted(person_roles.ROLES - {"agent", "party", "staff"}),
    *("name", "names", "signed", "present", "surname", "forename", "nom", "prénom", "nombre"),
    *("apellidos", "nome", "cognome", "naam", "navn", "imię", "nazwisko", "jméno", "soyad"),
    *("vorname", "nachname", "absent", "seen", "checked", "approved", "registrar", "operator"),
    *("alias", "remitter", "witnesses", "apologies", "invitees", "signatories", "klant"),
    *("patiënt", "médica", "an(?:a)?esthetist", "patienten(?:name)?"),
    "(?:full|first|last|user)name",
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
    "sister partner"
)
LOOSE_LABELS = frozenset(_LOOSE_LABELS.split())
"""Labels of findings and of a family's illnesses as well: one unknown word is no name there."""
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
PEOPLE = (
    *("baby", "boy", "girl", "patient", "resident", "tenant", "pupil", "student", "nurse"),
    *("midwife", "carer", "worker", "deceased", "witness", "appellant", "accused", "detainee"),
    *("prisoner", "passenger", "employee", "apprentice", "caretaker", "lodger", "minor"),
)
"""Words that only people are called by: claimants and clients may be companies."""
_PLACE_WORDS = (
    "street road avenue lane hill park church bridge house company law mayor close way "
    "mountain post river square lake terrace drive court school hospital station"
)
PLACE_WORDS = frozenset(_PLACE_WORDS.split())
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
NEXT_TO_PEOPLE = (
    r"\s*,?\s*(?:(?:KC|QC|SC|MD|M\.D\.|PhD|Ph\.D\.|DPhil|Esq"
    r"|FRCS|FRCP|MRCP|MRCGP|MBBS|OBE|MBE|CBE"
    r"|RGN|RMN|DDS|JP|MEP|LLB|LLM|a\s[ée]crit|ha\sscritto|escribió|escreveu)\b"
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
NO_NAMES = frozenset(
    (
        *_CLINICAL.split(),
        *("A", "According", "Act", "Administrative", "After", "Agency", "Agreement", "Airport"),
        *("America", "American", "An", "And", "Applicant", "April", "Apt", "Army"),
        *("Article", "Articles", "As", "Asia", "Assembly", "Association", "At", "August"),
        *("Austria", "Austrian", "Authority", "Avenue", "Bank", "Battalion", "Bay", "Beach"),
        *("Before", "Bishop", "Board", "Branch", "Bridge", "Brigade", "British", "Building"),
        *("Bulgarian", "Bureau", "But", "By", "Carolina", "Catholic", "Center", "Central"),
        *("Centre", "Chad", "Chamber", "Chapter", "Charter", "Chechen", "China", "Christian"),
        *("Church", "City", "Civil", "Claimant", "Close", "Club", "Coast", "Code", "College"),
        *("Commission", "Committee", "Communist", "Company", "Conservative", "Constitution"),
        *("Constitutional", "Convention", "Corporation", "Council", "County", "Court", "Courts"),
        *("Criminal", "Croatian", "Cup", "Cyprus", "Dakota", "Danish", "Day", "Dear", "December"),
        *("Declaration", "Decree", "Defendant", "Democratic", "Department", "Director"),
        *("District", "Division", "Drive", "Duma", "Dutch", "East", "Empire", "England"),
        *("English", "Europe", "European", "February", "Federal", "Federation", "Finnish"),
        *("Crescent", "Gardens", "Grove", "Mews", "Pt", "Pts", "Ward", "Wing", "Clinic"),
        *("Floor", "Florence", "Following", "For", "Force", "Forces", "Fort", "Foundation"),
        *("France", "Freedoms", "French", "Friday", "From", "Fund", "Fundamental", "Furthermore"),
        *("Games", "Gazette", "General", "Georgia", "German", "Germany", "Government"),
        *("Governor", "Great", "Greece", "Greek", "Group", "Gulf", "He", "Her", "High", "Hill"),
        *("Hills", "His", "Hospital", "Hotel", "House", "However", "Human", "I", "If", "In"),
        *("Inc", "India", "Institute", "International", "Ireland", "Islamic", "Island"),
        *("Islands", "Israel", "It", "Italian", "Italy", "Its", "January", "Jewish", "Jordan"),
        *("Journal", "Judge", "Judgment", "July", "June", "Kenya", "Kingdom", "Kurdish"),
        *("Labour", "Lake", "Landing", "Lane", "Law", "League", "Liberal", "Limited", "London"),
        *("Ltd", "Malta", "March", "May", "Mayor", "Military", "Minister", "Ministers"),
        *("Ministry", "Monday", "Moreover", "Mount", "Mountain", "Mountains", "Muslim", "Name"),
        *("National", "New", "News", "No", "North", "Norwegian", "Not", "November", "Ocean"),
        *("October", "Of", "Office", "On", "Or", "Order", "Orthodox", "Paris", "Park"),
        *("Parliament", "Party", "Patient", "Plaintiff", "Poland", "Police", "Polish", "Port"),
        *("Post", "Press", "Prison", "Program", "Programme", "Project"),
        *("Prosecutor", "Protestant", "Protocol", "Province", "Public", "Radio", "Regards"),
        *("Regiment", "Region", "Regional", "Register", "Registry", "Republic", "Republican"),
        *("Rights", "River", "Road", "Romanian", "Rule", "Rules", "Russia", "Russian", "Saint"),
        *("Sankt", "Santa", "Saturday", "School", "Scotland", "Sea", "Secretary", "Section"),
        *("Senate", "September", "Serbian", "Service", "Services", "She", "Since", "Sincerely"),
        *("Socialist", "Society", "South", "Spain", "Spanish", "Square", "State", "Statement"),
        *("States", "Station", "Street", "Subject", "Suite", "Sunday", "Supreme", "Swedish"),
        *("Swiss", "Sydney", "Team", "Television", "Terrace", "Territory", "That", "The"),
        *("Their", "Therefore", "These", "They", "This", "Those", "Thursday", "Thus", "Times"),
        *("Town", "Treaty", "Tribunal", "Tuesday", "Turkey", "Turkish", "Turnpike", "Ukraine"),
        *("Ukrainian", "Under", "Union", "Unit", "University", "Until", "Valley", "Village"),
        *("Virginia", "Wales", "War", "Way", "We", "Wednesday", "West", "When", "While"),
        *("Witness", "You", "Yours"),
        *("Chancellor", "Comics", "Complaint", "Complaints", "Constable", "Elect", "Metro"),
        *("Annex", "Appendix", "Exhibit", "Schedule"),
        *("Amendments", "Attn", "Bench", "Case", "Clerk", "Depute", "Enclosed", "Fao"),
        *("Independent", "Practitioner", "Prescriber", "Principal", "Provost", "Punishment"),
        *("Dphil", "Esq", "Phd", "Sales", "Select", "Spiritual", "Tender", "Too"),
    )
)
"""Institutions, places, peoples, days, months, and what sentences begin with."""
BEFORE_NAMES = (
    *("姓名", "名字", "名叫", "我叫", "我是", "原告", "被告", "被告人", "上诉人"),
    *("被上诉人", "申请人", "被申请人", "第三人", "当事人", "委托人", "代理人", "证人"),
    *("患者", "病人", "客户", "户主", "经办人", "负责人", "联系人", "收件人", "收款人"),
    *("付款人", "借款人", "担保人", "投保人", "被保险人", "员工", "职工", "学生", "先生"),
    *("女士", "判令", "法官", "律师", "医生", "主任", "经理", "医师", "护士", "护士长"),
    *("审判员", "审判长", "书记员", "陪审员", "检察员", "法定代表人", "代表人", "死者"),
    *("申请执行人", "被执行人", "受害人", "被害人", "司机", "受益人", "继承人", "持卡人"),
    *("出借人", "承租人", "出租人", "房东", "租户", "业主", "其妻", "其夫", "其子", "其女"),
    *("其父", "其母", "妻子", "丈夫", "儿子", "女儿", "父亲", "母亲", "同事", "邻居"),
    *("甲方", "乙方", "丙方", "买方", "卖方", "买受人", "出卖人", "转让人", "受让人", "贷款人"),
    *("户名", "家属", "监护人", "妈妈", "爸爸", "哥哥", "姐姐", "弟弟", "妹妹", "爷爷", "奶奶"),
    *("出席", "出席人", "参会人", "参会人员", "出席人员", "列席", "主持人", "记录人", "签字"),
    *("签名", "主诉人", "报案人", "嫌疑人", "犯罪嫌疑人", "辩护人", "主治医师", "主刀", "麻醉师"),
    *("買方", "賣方", "上訴人", "被上訴人", "申請人", "當事人", "證人", "病患", "客戶", "聯絡人"),
    *("負責人", "學生", "員工", "職員", "醫生", "醫師", "護士", "律師", "經理", "審判長", "書記官"),
    *("戶名", "家屬", "監護人", "媽媽", "兒子", "女兒", "父親", "母親", "借款人", "貸款人"),
)
"""What somebody is, and words after which a name comes, in Chinese."""
BEHIND_NAMES = (
    *("先生", "女士", "小姐", "太太", "夫人", "同志", "医生", "医师", "护士", "教授", "老师"),
    *(
        "律师",
        "法官",
        "检察官",
        "主任",
        "经理",
        "院长",
        "局长",
        "警官",
        "醫生",
        "醫師",
        "護士",
        "老師",
        "律師",
        "經理",
    ),
)
"""How somebody is addressed in Chinese."""
NO_GIVEN_NAME = (
    "的了和与及在是于因为对向将被把所有从到以其也并又等应当按如未无有时般原何用面血压"
    "之、，。；诉请称认要支付住生女男某们该本这那上下不已可能会就都而但或且则即若"
)
"""Characters that go on a sentence rather than a name."""
CHINESE_SURNAMES = (
    "诸葛 司马 上官 欧阳 夏侯 东方 皇甫 尉迟 公孙 慕容 令狐 长孙 宇文 司徒 端木 独孤 南宫 西门 "
    "諸葛 司馬 歐陽 東方 尉遲 公孫 長孫 獨孤 南宮 西門"
)
"""Surnames of two characters; the lists have few."""
DISPUTES = (
    "离婚|民间|合同|买卖|借款|劳动|侵权|继承|抚养|赡养|机动|房屋|物业|金融|信用|名誉|租赁|追偿|保险"
    "|離婚|民間|買賣|勞動|侵權|繼承|房屋|糾紛|纠纷|一案"
)
"""What follows the second name of a case."""
AFTER_NAMES = tuple(
    "与和及系诉称辩不因出对的在于是为已未向将被要请提到承连逾转当申认支主自曾从同以也均即并来说就去又宣"
    "表男女等、受成签没有查"
)
"""Characters that may follow a name."""
WORD_SURNAMES = frozenset(
    "于向应和从任方时平万常左连成安高黄白金石水牛温贾经房单双全相都乐能还由许曾支别项明计关家路车官"
    "年终古苗花管国巴农步包商盛边简钱武文康毛龙江雷叶夏田景麻祝解强虞柏明"
)
"""Surnames with which everyday words begin."""
GIVEN_CHARACTERS = (
    "伟刚勇毅俊峰强军平保东文辉力明永健世广志义兴良海山仁波宁贵福生龙元全国胜学祥才发武新利清飞彬富顺信子"
    "杰涛昌成康星光天达安岩中茂进林坚彪博诚敬震振壮思群豪心邦承乐绍功松善厚庆磊民友裕河哲江超浩亮政谦"
    "亨奇固轮翰朗伯宏若鸣朋斌梁栋维启克伦翔旭鹏泽晨辰士建家致树炎德泰盛雄琛钧冠策腾楠榕风航弘秀娟英华慧"
    "巧美娜静淑惠珠翠雅芝玉萍红娥玲芬芳燕彩春菊兰凤洁梅琳素云莲真环雪荣爱妹霞香月莺媛艳瑞凡佳嘉琼勤珍贞莉"
    "桂娣叶璧璐娅琦晶妍茜秋珊莎锦黛青倩婷姣婉娴瑾颖露瑶怡婵雁蓓纨仪荷丹蓉眉君琴蕊薇菁梦岚苑筠柔竹霭凝晓"
    "欢霄枫芸菲寒欣滢伊亚宜姬舒影荔枝丽阳小大远近正立根宝长金银铁石磊雨"
)
"""Characters that many given names are made of."""
EVERYDAY_WORDS = frozenset(
    (
        *(
            "何时",
            "何人",
            "何事",
            "何处",
            "陈述",
            "余款",
            "余额",
            "牛奶",
            "查房",
            "焦虑",
            "宁静",
            "白癜",
        ),
        *(
            "明天",
            "明日",
            "明年",
            "明确",
            "温柔",
            "温和",
            "温度",
            "高兴",
            "高龄",
            "安静",
            "安全",
            "常年",
        ),
        *(
            "常常",
            "平时",
            "平安",
            "时常",
            "马上",
            "全部",
            "连续",
            "方便",
            "方式",
            "关系",
            "关于",
            "家属",
        ),
        *(
            "家庭",
            "金额",
            "金钱",
            "成立",
            "成年",
            "成绩",
            "相关",
            "相同",
            "双方",
            "单位",
            "经常",
            "经过",
        ),
        *(
            "应当",
            "应该",
            "向来",
            "路过",
            "路上",
            "水平",
            "水费",
            "石头",
            "白天",
            "白发",
            "黄金",
            "年龄",
        ),
        *(
            "年初",
            "年底",
            "年轻",
            "年幼",
            "包括",
            "包办",
            "计划",
            "计算",
            "项目",
            "管理",
            "强制",
            "强行",
        ),
        *(
            "雷雨",
            "景色",
            "武器",
            "文件",
            "康复",
            "解除",
            "解释",
            "农村",
            "商店",
            "商量",
            "盛大",
            "简单",
        ),
    )
)
"""Everyday words that begin with a character that is a surname as well; they begin no name."""
