"""Words around names of people, and words that begin with a capital and are none."""

TITLES = (
    *("Mr", "Mrs", "Ms", "Miss", "Mx", "Messrs", "Dr", "Prof", "Professor", "Doctor", "Sir"),
    *("Dame", "Lady", "Lord", "Judge", "Justice", "Captain", "Capt", "Major", "Colonel", "Col"),
    *("Lieutenant", "Lt", "Sergeant", "Sgt", "Officer", "Inspector", "Detective", "Constable"),
    *("Senator", "Nurse", "Herr", "Frau", "Monsieur", "Madame", "Mme", "Mmes", "Mlle", "Señor"),
    *("Señora", "Signor", "Signora", "Doña", "Sheikh", "Imam", "Rabbi", "Father", "Sister"),
)
NO_NAMES = frozenset(
    (
        *("A", "According", "Act", "Administrative", "After", "Agency", "Agreement", "Airport"),
        *("America", "American", "An", "And", "Applicant", "April", "Apt", "Archbishop", "Army"),
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
        *("Post", "President", "Press", "Prison", "Program", "Programme", "Project"),
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
    )
)
"""Institutions, places, peoples, days, months, and what sentences begin with."""
BEFORE_NAMES = (
    *("姓名", "名字", "名叫", "我叫", "我是", "原告", "被告", "被告人", "上诉人", "被上诉人"),
    *("申请人", "被申请人", "第三人", "当事人", "委托人", "代理人", "证人", "患者", "病人"),
    *("客户", "户主", "联系人", "收件人", "收款人", "付款人", "借款人", "担保人", "投保人"),
    *("被保险人", "员工", "职工", "学生", "先生", "女士", "判令", "法官", "律师", "医生", "主任"),
    "经理",
)
"""What somebody is, and words after which a name comes, in Chinese."""
BEHIND_NAMES = (
    *("先生", "女士", "小姐", "太太", "夫人", "同志", "医生", "医师", "护士", "教授", "老师"),
    *("律师", "法官", "检察官", "主任", "经理", "院长", "局长", "警官"),
)
"""How somebody is addressed in Chinese."""
NO_GIVEN_NAME = (
    "的了和与及在是于因为对向将被把所有从到以其也并又等"
    "之、，。；：诉请称认要支付住生女男某们该本这那上下"
)
"""Characters that go on a sentence rather than a name."""
