"""The taxonomy is whole, every label means one thing, and the page says what the data say."""

import json
import runpy
from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.config import registry
from fedaudit.nano.people import LABELS
from fedaudit.pii.taxonomy import (
    NORMS,
    OTHER_CATEGORY,
    category,
    in_order,
    major_category,
    taxonomy,
)

ROOT = Path(__file__).parents[2]
PAGE = runpy.run_path(str(ROOT / "docs/site.py"))["with_tables"](
    (ROOT / "docs/taxonomy.md").read_text("utf-8")
)
BASIC = [
    "Name",
    "Birthday",
    "Address",
    "Gender",
    "Ethnicity",
    "Age",
    "Nationality",
]  # FedPII, figure 13


def test_there_are_seven_major_and_thirty_six_minor_categories():
    known = taxonomy()
    assert (len(known.majors), len(known.categories)) == (7, 36)
    assert len({one.name for one in known.categories}) == 36
    assert {one.major for one in known.categories} == {name for name, _ in known.majors}


def test_the_papers_first_major_category_is_as_it_names_it():
    named = [c.name for c in taxonomy().categories if c.major == "Personal Basic Information"]
    assert set(named) == {*BASIC, "Family Relationship", "Personal Phone Number"}
    for label in ("Work Experience", "Work Place", "Medication Record"):
        assert category(label) is not None


@pytest.mark.parametrize("one", taxonomy().categories, ids=lambda one: one.name)
def test_every_category_is_complete(one):
    assert one.description.endswith(".")
    assert one.examples
    assert one.labels
    for norm in taxonomy().norms:
        references = one.references(norm.key)
        assert references, norm.key
        assert len(set(references)) == len(references)
        assert set(references) <= {clause.reference for clause in norm.clauses}


def test_every_clause_is_cited_and_says_what_it_is_about():
    for norm in taxonomy().norms:
        cited = {r for one in taxonomy().categories for r in one.references(norm.key)}
        assert cited == {clause.reference for clause in norm.clauses}
        assert all(clause.subject for clause in norm.clauses)


def test_a_label_means_one_category():
    counts = Counter(label for one in taxonomy().categories for label in one.labels)
    assert [label for label, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("label", LABELS.values())
def test_the_generators_labels_have_a_category(label):
    assert category(label) is not None


def test_what_the_detector_finds_by_itself_has_a_category():
    detector = registry.create("detector", "presidio")
    found = {
        label
        for labels in detector._labels_by_language(detector._engines()).values()
        for label in labels
    }
    assert {label for label in found if category(label) is None} == set()


SCHEMES = {
    "AWS Comprehend": (
        "ADDRESS AGE AWS_ACCESS_KEY AWS_SECRET_KEY CREDIT_DEBIT_CVV CREDIT_DEBIT_EXPIRY "
        "CREDIT_DEBIT_NUMBER DRIVER_ID EMAIL INTERNATIONAL_BANK_ACCOUNT_NUMBER IP_ADDRESS "
        "LICENSE_PLATE MAC_ADDRESS NAME PASSWORD PHONE PIN SWIFT_CODE USERNAME "
        "VEHICLE_IDENTIFICATION_NUMBER CA_HEALTH_NUMBER CA_SOCIAL_INSURANCE_NUMBER "
        "IN_AADHAAR IN_NREGA IN_PERMANENT_ACCOUNT_NUMBER IN_VOTER_NUMBER "
        "UK_NATIONAL_HEALTH_SERVICE_NUMBER UK_NATIONAL_INSURANCE_NUMBER "
        "UK_UNIQUE_TAXPAYER_REFERENCE_NUMBER BANK_ACCOUNT_NUMBER BANK_ROUTING "
        "PASSPORT_NUMBER US_INDIVIDUAL_TAX_IDENTIFICATION_NUMBER SSN"
    ),
    "Azure AI Language": (
        "Person PersonType PhoneNumber Address Email IPAddress Age ABARoutingNumber "
        "SWIFTCode CreditCardNumber InternationalBankingAccountNumber "
        "ARNationalIdentityNumber AUBankAccountNumber AUDriversLicenseNumber "
        "AUMedicalAccountNumber AUPassportNumber AUTaxFileNumber ATIdentityCard "
        "ATTaxIdentificationNumber BENationalNumber BRCPFNumber BRNationalIDRG "
        "BGUniformCivilNumber CABankAccountNumber CADriversLicenseNumber "
        "CAHealthServiceNumber CAPassportNumber CAPersonalHealthIdentification "
        "CASocialInsuranceNumber CLIdentityCardNumber CNResidentIdentityCardNumber "
        "HRIdentityCardNumber HRNationalIDNumber HRPersonalIdentificationNumber "
        "CYIdentityCard CZPersonalIdentityNumber DKPersonalIdentificationNumber "
        "EEPersonalIdentificationCode EUDebitCardNumber EUDriversLicenseNumber "
        "EUGPSCoordinates EUNationalIdentificationNumber EUPassportNumber "
        "EUSocialSecurityNumber EUTaxIdentificationNumber FIEuropeanHealthNumber "
        "FINationalID FRHealthInsuranceNumber FRNationalID FRSocialSecurityNumber "
        "DEIdentityCardNumber DEPassportNumber GRNationalIDCard HKIdentityCardNumber "
        "HUPersonalIdentificationNumber INPermanentAccount INUniqueIdentificationNumber "
        "IDIdentityCardNumber IEPersonalPublicServiceNumber ILNationalID ITFiscalCode "
        "JPMyNumberPersonal JPResidenceCardNumber JPResidentRegistrationNumber "
        "LVPersonalCode LTPersonalCode LUNationalIdentificationNumberNatural "
        "NLCitizensServiceNumber NZInlandRevenueNumber NZMinistryOfHealthNumber "
        "NZSocialWelfareNumber NOIdentityNumber PHUnifiedMultiPurposeIDNumber "
        "PLIdentityCard PLNationalID PTCitizenCardNumber ROPersonalNumericalCode "
        "RUPassportNumberDomestic SANationalID SGNationalRegistrationIdentityCardNumber "
        "SKPersonalNumber SIUniqueMasterCitizenNumber ZAIdentificationNumber "
        "KRResidentRegistrationNumber ESDNI SENationalID CHSocialSecurityNumber "
        "TWNationalID TWResidentCertificate TRNationalIdentificationNumber "
        "UKDriversLicenseNumber UKElectoralRollNumber UKNationalHealthNumber "
        "UKNationalInsuranceNumber USUKPassportNumber UKUniqueTaxpayerNumber "
        "USBankAccountNumber USDriversLicenseNumber USIndividualTaxpayerIdentification "
        "USSocialSecurityNumber DriversLicenseNumber LicensePlate VIN PassportNumber "
        "BankAccountNumber"
    ),
    "Google Sensitive Data Protection": (
        "ADVERTISING_ID AGE AUTH_TOKEN CREDIT_CARD_EXPIRATION_DATE CREDIT_CARD_NUMBER "
        "DATE_OF_BIRTH DRIVERS_LICENSE_NUMBER EMAIL_ADDRESS ETHNIC_GROUP FEMALE_NAME "
        "FIRST_NAME GOVERNMENT_ID HTTP_COOKIE IMEI_HARDWARE_ID IMSI_ID LAST_NAME LOCATION "
        "LOCATION_COORDINATES MALE_NAME MARITAL_STATUS MEDICAL_RECORD_NUMBER PERSON_NAME "
        "PHONE_NUMBER STREET_ADDRESS SWIFT_CODE US_ADOPTION_TAXPAYER_IDENTIFICATION_NUMBER "
        "US_BANK_ROUTING_MICR US_DEA_NUMBER US_DRIVERS_LICENSE_NUMBER US_HEALTHCARE_NPI "
        "US_MEDICARE_BENEFICIARY_ID_NUMBER US_PASSPORT US_SOCIAL_SECURITY_NUMBER US_STATE "
        "US_TOLLFREE_PHONE_NUMBER US_VEHICLE_IDENTIFICATION_NUMBER "
        "AUSTRALIA_MEDICARE_NUMBER AUSTRALIA_TAX_FILE_NUMBER "
        "BELGIUM_NATIONAL_ID_CARD_NUMBER BRAZIL_CPF_NUMBER CANADA_OHIP CANADA_BC_PHN "
        "CANADA_QUEBEC_HIN CANADA_BANK_ACCOUNT CHILE_CDI_NUMBER CHINA_RESIDENT_ID_NUMBER "
        "CROATIA_PERSONAL_ID_NUMBER DENMARK_CPR_NUMBER FRANCE_CNI FRANCE_NIR "
        "GERMANY_SCHUFA_ID HONG_KONG_ID_NUMBER INDIA_AADHAAR_INDIVIDUAL "
        "INDIA_PAN_INDIVIDUAL INDONESIA_NIK_NUMBER ITALY_FISCAL_CODE "
        "JAPAN_INDIVIDUAL_NUMBER KOREA_RRN MEXICO_CURP_NUMBER NETHERLANDS_BSN_NUMBER "
        "NEW_ZEALAND_IRD_NUMBER NEW_ZEALAND_NHI_NUMBER NORWAY_NI_NUMBER PERU_DNI_NUMBER "
        "POLAND_PESEL_NUMBER PORTUGAL_NIC_NUMBER SCOTLAND_COMMUNITY_HEALTH_INDEX_NUMBER "
        "SINGAPORE_NATIONAL_REGISTRATION_ID_NUMBER SOUTH_AFRICA_ID_NUMBER SPAIN_DNI_NUMBER "
        "SPAIN_NIE_NUMBER SPAIN_NIF_NUMBER TURKEY_ID_NUMBER UK_TAXPAYER_REFERENCE "
        "UK_ELECTORAL_ROLL_NUMBER UK_NATIONAL_INSURANCE_NUMBER "
        "VEHICLE_IDENTIFICATION_NUMBER"
    ),
    "Gretel": (
        "account_number api_key bank_routing_number bban biometric_identifier "
        "certificate_license_number city company_name coordinate country credit_card_number "
        "credit_card_security_code credit_debit_card customer_id cvv date_of_birth "
        "device_identifier driver_license_number email employee_id first_name "
        "health_plan_beneficiary_number http_cookie iban ipv4 ipv6 last_name latitude "
        "license_plate local_latlng mac_address medical_record_number name passport_number "
        "password phone_number pin political_view postcode race_ethnicity religious_belief "
        "sexuality ssn state street_address swift_bic swift_bic_code tax_id unique_id "
        "user_name vehicle_identifier blood_type education_level employment_status"
    ),
    "GLiNER": (
        "person, phone number, passport number, credit card number, social security number, "
        "health insurance id number, date of birth, mobile phone number, bank account "
        "number, medication, cpf, driver's license number, tax identification number, "
        "medical condition, identity card number, national id number, ip address, email "
        "address, credit card expiration date, username, health insurance number, "
        "registration number, student id number, insurance number, landline phone number, "
        "blood type, cvv, social media handle, license plate number, postal code, vehicle "
        "registration number, credit card brand, fax number, visa number, identity document "
        "number, transaction number, national health insurance number, cvc, birth "
        "certificate number"
    ),
    "MEDDOCAN": (
        "NOMBRE_SUJETO_ASISTENCIA EDAD_SUJETO_ASISTENCIA SEXO_SUJETO_ASISTENCIA "
        "FAMILIARES_SUJETO_ASISTENCIA NOMBRE_PERSONAL_SANITARIO PROFESION HOSPITAL "
        "CENTRO_SALUD CALLE TERRITORIO PAIS NUMERO_TELEFONO NUMERO_FAX CORREO_ELECTRONICO "
        "ID_SUJETO_ASISTENCIA ID_CONTACTO_ASISTENCIAL ID_ASEGURAMIENTO "
        "ID_TITULACION_PERSONAL_SANITARIO ID_EMPLEO_PERSONAL_SANITARIO "
        "IDENTIF_VEHICULOS_NRSERIE_PLACAS IDENTIF_DISPOSITIVOS_NRSERIE DIREC_PROT_INTERNET "
        "IDENTIF_BIOMETRICOS OTRO_NUMERO_IDENTIF"
    ),
    "Chinese": (
        "姓名 电话 身份证号 手机号 地址 邮箱 出生日期 年龄 性别 民族 银行卡号 "
        "护照号码 B-姓名 工作单位 车牌号"
    ),
}
"""Labels of public schemes that mean one kind of personal data."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_label_of_a_public_scheme_has_a_category(scheme):
    labels = SCHEMES[scheme].split(", " if scheme == "GLiNER" else " ")
    assert [label for label in labels if category(label) is None] == []


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("UKNationalHealthNumber", "Social Insurance Number"),
        ("EUPassportNumber", "Passport Number"),
        ("NEW_ZEALAND_DRIVERS_LICENSE_NUMBER", "Driving Licence Number"),
        ("DriversLicenceNumber", "Driving Licence Number"),
        ("driver's license number", "Driving Licence Number"),
        ("INDIVIDUAL_NUMBER", "Identity Card Number"),
        ("B-FRANCE_PASSPORT", "Passport Number"),
        ("us_state", "Address"),
        ("PATIENT_ID", "Treatment Record"),
        ("PersonType", "Occupation"),
        ("IDCARDNUM", "Identity Card Number"),  # AI4Privacy
        ("B-GIVENNAME2", "Name"),
        ("TEL", "Personal Phone Number"),
        ("BUILDING", "Address"),
        ("LOCATION-OTHER", "Address"),  # i2b2
        ("I-PER", "Name"),  # CoNLL
        ("GPE", "Address"),  # OntoNotes
        ("CODE", "Other Official Number"),  # TAB
        ("EMAIL_ADDRESS", "E-mail Address"),  # Presidio
    ],
)
def test_a_label_has_its_category_in_whatever_spelling(label, name):
    assert category(label).name == name


@pytest.mark.parametrize(
    "label", ["DATE_TIME", "ORGANIZATION", "NRP", "URL", "MISC", "", "小名", "B-HOROSCOPE"]
)
def test_what_means_several_things_or_nothing_known_is_other(label):
    assert category(label) is None
    assert major_category(label) == OTHER_CATEGORY


@given(st.sampled_from(taxonomy().categories), st.sampled_from(" -_"), st.booleans())
def test_case_and_joints_do_not_matter(one, joint, lower):
    for label in (one.name, *one.labels):
        spelt = label.replace("_", joint).replace(" ", joint)
        assert category(spelt.lower() if lower else spelt) is one


def test_majors_come_in_the_order_of_the_taxonomy():
    assert in_order([OTHER_CATEGORY, "Health", "Personal Basic Information", "Health"]) == [
        "Personal Basic Information",
        "Health",
        OTHER_CATEGORY,
    ]


def test_it_is_read_once_and_cannot_be_changed():
    assert taxonomy() is taxonomy()
    with pytest.raises(FrozenInstanceError):
        taxonomy().categories[0].name = "x"


def test_the_labels_of_the_dev_set_have_a_category():
    data = ROOT.parent / "shared/data/echr_dev.jsonl"
    if not data.exists():
        pytest.skip("the dev set is not here")
    with data.open(encoding="utf-8") as lines:
        labels = {span["label"] for line in lines for span in json.loads(line).get("pii") or ()}
    assert {label for label in labels if category(label) is None} == set()


@pytest.mark.parametrize("one", taxonomy().categories, ids=lambda one: one.name)
def test_the_page_has_the_category_as_the_data_have_it(one):
    cells = [
        one.name,
        one.description,
        "; ".join(one.examples),
        *("; ".join(one.references(norm)) for norm in NORMS),
        ", ".join(f"`{label}`" for label in one.labels),
    ]
    line = f"| {' | '.join(cells)} |"
    section = PAGE.partition(f"\n### {one.major}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    assert line in section.splitlines()


def test_the_page_has_no_category_that_the_data_lack():
    sections = PAGE.partition("\n## The categories\n")[2].partition("\n## ")[0]
    lines = [line for line in sections.splitlines() if line.startswith("| ")]
    headers = [line for line in lines if line.startswith(("| category", "| --- "))]
    assert len(headers) == 2 * 7
    assert len(lines) - len(headers) == 36


@pytest.mark.parametrize("norm", taxonomy().norms, ids=lambda norm: norm.key)
def test_the_page_says_what_every_clause_is_about(norm):
    section = PAGE.partition(f"\n### {norm.name}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    assert norm.title in section.replace("\n", " ")
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    clauses = [f"| {clause.reference} | {clause.subject} |" for clause in norm.clauses]
    assert lines[2:] == clauses
