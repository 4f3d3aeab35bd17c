"""Words for what a person is to others: labels, headings and fields called so hold names."""

_ROLES = (
    "patient client customer contact attn attention from to cc bcc author signature applicant "
    "claimant defendant plaintiff employee student teacher pupil member guest attendee "
    "participant speaker chair clerk tenant landlord owner witness carer caregiver guardian "
    "mother father husband wife spouse kin parent child beneficiary payee payer sender recipient "
    "holder cardholder accountholder policyholder user assignee reviewer reporter interviewer "
    "interviewee supervisor physician gp doctor clinician practitioner nurse consultant therapist "
    "psychologist psychiatrist pharmacist signatory borrower lender guarantor debtor creditor "
    "buyer seller vendor purchaser lessee lessor insured executor trustee heir daughter son "
    "brother sister partner caller driver judge magistrate solicitor counsel lawyer attorney "
    "barrister prosecutor surgeon dentist midwife manager director secretary treasurer organiser "
    "organizer host candidate resident visitor passenger subscriber complainant respondent "
    "petitioner appellant accused suspect offender victim deceased party person people individual "
    "relative writer editor translator creator submitter requester requestor interpreter officer "
    "constable inspector investigator referrer colleague friend neighbour neighbor worker staff "
    "donor agent paciente médico medico autor autora demandante demandado testigo titular cliente "
    "paziente patientin arzt ärztin kunde kundin kläger klägerin beklagte beklagter zeuge zeugin "
    "richter richterin mitarbeiter mitarbeiterin ansprechpartner absender empfänger inhaber "
    "registrar usher handler pcp radiologist pathologist deponent affiant testator testatrix "
    "nominee cashier teller sachbearbeiter sachbearbeiterin unterschrift médecin medecin auteur "
    "demandeur défendeur témoin juge titulaire"
)
ROLES = frozenset(_ROLES.split())
"""In small letters and in the singular."""

_HAN_ROLES = (
    "原告 被告 被告人 上诉人 被上诉人 申请人 被申请人 第三人 当事人 委托人 代理人 证人 患者 "
    "病人 客户 户主 经办人 负责人 联系人 收件人 寄件人 发件人 收款人 付款人 借款人 担保人 "
    "投保人 被保险人 员工 职工 学生 法官 律师 医生 主任 经理 医师 护士 护士长 审判员 审判长 "
    "书记员 陪审员 检察员 法定代表人 代表人 死者 用户 申请执行人 被执行人 受害人 被害人 "
    "司机 受益人 继承人 持卡人 作者 出借人 承租人 出租人 房东 租户 业主 妻子 丈夫 儿子 女儿 "
    "父亲 母亲 同事 邻居 监护人 家属 甲方 乙方 丙方 买方 卖方 买受人 出卖人 转让人 受让人 "
    "贷款人 妈妈 爸爸 哥哥 姐姐 弟弟 妹妹 爷爷 奶奶 出席人 参会人 主持人 记录人 主诉人 "
    "报案人 嫌疑人 犯罪嫌疑人 辩护人 主治医师 麻醉师 收货人 发货人 审核人 教师 老师 记者 "
    "编辑 校长 院长 班主任 买家 卖家 買方 賣方 上訴人 被上訴人 申請人 當事人 證人 病患 客戶 "
    "聯絡人 負責人 學生 員工 職員 醫生 醫師 護士 律師 經理 審判長 書記官 家屬 監護人 媽媽 "
    "兒子 女兒 父親 母親 貸款人 用戶 寄件者 收件者 签名"
)
HAN_ROLES = tuple(_HAN_ROLES.split())
"""The same in Chinese characters."""
