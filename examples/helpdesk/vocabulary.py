"""What the tickets of the helpdesk are made of: desks by language, customers, and lines that are wrong on purpose."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BAD_LINES", "CHANNELS", "CUSTOMERS", "DESKS", "PRIORITIES", "Desk"]


class Desk(NamedTuple):
    """One language: its share of the tickets, subjects without a price, and subjects with one (lowest, highest)."""

    language: str
    share: int
    currency: str
    free: tuple[str, ...]
    paid: tuple[tuple[str, int, int], ...]


PRIORITIES: Final = (("low", 20), ("normal", 55), ("high", 18), ("urgent", 7))
CHANNELS: Final = (("mail", 55), ("web", 25), ("chat", 15), ("phone", 5))

DESKS: Final = (
    Desk(
        "en",
        34,
        "GBP",
        (
            "Printer on fire (again)",
            "Cannot log in after password reset",
            "Export to CSV stops at row {n}000",
            "Two-factor code never arrives",
            "Dashboard shows yesterday's figures",
            "How do I merge two accounts?",
            "App crashes when I rotate the tablet",
            "Webhook retries {n} times, then nothing",
            "Please delete our trial workspace",
            "Invoice PDF has the wrong address",
            'Search for "O\'Neill" finds nothing',
            "SSO certificate expires in {n} days",
        ),
        (
            ("Add {n} seats to our plan", 4_800, 190_000),
            ("Upgrade from Team to Business", 29_900, 29_900),
            ("Buy the on-site training day", 145_000, 145_000),
            ("Replacement label printer, express delivery", 21_950, 38_400),
            ("Renew support contract for {n} machines", 36_000, 880_000),
        ),
    ),
    Desk(
        "de",
        26,
        "EUR",
        (
            "Anmeldung nach Passwortwechsel nicht möglich",
            "Druckaufträge bleiben in der Warteschlange hängen",
            "Umlaute im Export zerstört (Müller → MÃ¼ller)",
            "Kassenabschluss weicht um {n} Cent ab",
            "Wie lösche ich einen früheren Mitarbeiter?",
            "E-Mails kommen doppelt an",
            "Rechnung bitte ohne „c/o“ im Adressfeld",
            "Scanner erkennt Etiketten größer als A{n} nicht",
            "Bitte um Rückruf wegen Datenschutzanfrage",
        ),
        (
            ("{n} weitere Lizenzen für den Außendienst", 5_900, 236_000),
            ("Wechsel in den Tarif Geschäft Plus", 34_900, 34_900),
            ("Ersatznetzteil für Kassenterminal", 8_990, 12_490),
            ("Einrichtung vor Ort, {n} Arbeitsplätze", 48_000, 410_000),
        ),
    ),
    Desk(
        "fr",
        14,
        "EUR",
        (
            "Impossible de se connecter depuis ce matin",
            "L'export s'arrête à {n} %",
            "Les accents disparaissent à l'impression",
            "Où trouver l'historique des commandes ?",
            "Le bouton « Valider » ne répond plus",
            "Changement d'adresse de facturation",
        ),
        (
            ("{n} postes supplémentaires", 5_500, 220_000),
            ("Passage à l'offre Entreprise", 41_900, 41_900),
            ("Remplacement de la douchette code-barres", 13_900, 18_500),
        ),
    ),
    Desk(
        "es",
        12,
        "EUR",
        (
            "No puedo entrar: «usuario bloqueado»",
            "El informe mensual sale vacío",
            "¿Cómo cambio el idioma de la aplicación?",
            "La sincronización tarda más de {n} minutos",
            "Error al adjuntar un archivo con «ñ» en el nombre",
        ),
        (
            ("Ampliar el contrato a {n} usuarios", 6_200, 248_000),
            ("Compra de rollos térmicos ({n} cajas)", 2_450, 98_000),
        ),
    ),
    Desk(
        "ja",
        9,
        "JPY",
        (
            "ログインできません",
            "請求書の宛名を変更したい",
            "CSVが文字化けします",
            "通知が{n}件まとめて届く",
            "印刷プレビューが真っ白になる",
        ),
        (
            ("ライセンスを{n}件追加してください", 7_800, 312_000),
            ("保守契約の更新", 128_000, 128_000),
        ),
    ),
    Desk(
        "pl",
        5,
        "PLN",
        (
            "Nie mogę się zalogować po aktualizacji",
            "Drukarka paragonów gubi polskie znaki: ąęłż",
            "Aplikacja zamyka się po {n} sekundach",
        ),
        (("Dokupienie {n} stanowisk", 19_900, 398_000),),
    ),
)

# Longer than a subject may be, though not longer than a signal.
_LONG_SUBJECT: Final = "AW: " * 60 + "Drucker"

CUSTOMERS: Final[dict[str, tuple[str, ...]]] = {
    "en": (
        "Hartley & Sons Ltd",
        "Blue Anchor Brewery",
        "O'Neill Veterinary Practice",
        "Thistle & Thread",
        "Northgate Cycles",
        "St Brigid's Primary School",
        "Pemberton Removals",
        "Two Rivers Dental",
        "Ashdown Garden Centre",
        "Mabel's Tea Room",
        "Kestrel Freight",
        "Fen Edge Farm Shop",
    ),
    "de": (
        "Bäckerei Sonnleitner",
        "Autohaus Größmann",
        "Apotheke am Münster",
        "Weingut Köhler-Ruprecht",
        "Tischlerei Öztürk",
        "Stadtwerke Weißenfels",
        "Gärtnerei Blümel",
        "Zahnarztpraxis Dr. Yıldız",
        "Hofladen Süderbrarup",
    ),
    "fr": (
        "Librairie du Vieux-Port",
        "Boulangerie Lefèvre",
        "Garage Saint-Éloi",
        "Clinique vétérinaire des Chênes",
        "Fromagerie Côte-d'Or",
    ),
    "es": (
        "Talleres Ibarra",
        "Panadería La Espiga",
        "Clínica Dental Muñoz",
        "Viñedos Peñalba",
        "Ferretería Núñez e Hijos",
    ),
    "ja": ("株式会社青葉", "山本歯科医院", "カフェ・ひだまり", "北浜運送"),
    "pl": ("Piekarnia Łąkowa", "Warsztat Żółkiewski", "Księgarnia Pod Dębem"),
}

BAD_LINES: Final = (
    # no subject
    '{"ticket": "T-9001", "customer": "Kestrel Freight", "language": "en", "priority": "low", "channel": "mail"}',
    # a negative amount
    (
        '{"ticket": "T-9002", "subject": "Refund for October", "customer": "Two Rivers Dental", "language": "en", '
        '"priority": "normal", "channel": "web", "amount": -4900, "currency": "GBP"}'
    ),
    # cut off by whoever wrote the feed: not JSON
    '{"ticket": "T-9003", "subject": "Scanner piept nur no',
    # wrong type of subject
    (
        '{"ticket": "T-9004", "subject": 404, "customer": "Northgate Cycles", "language": "en", "priority": "high", '
        '"channel": "chat"}'
    ),
    # over-long subject
    (
        f'{{"ticket": "T-9005", "subject": "{_LONG_SUBJECT}", "customer": "Autohaus Größmann", "language": "de", '
        '"priority": "normal", "channel": "mail"}'
    ),
    # a priority that there is not
    (
        '{"ticket": "T-9006", "subject": "LE SITE EST LENT !!!", "customer": "Garage Saint-Éloi", "language": "fr", '
        '"priority": "SUPER URGENT", "channel": "web"}'
    ),
    # JSON in Python's dialect only
    (
        '{"ticket": "T-9007", "subject": "Add seats", "customer": "Blue Anchor Brewery", "language": "en", '
        '"priority": "low", "channel": "web", "amount": NaN, "currency": "GBP"}'
    ),
    # an amount in words
    (
        '{"ticket": "T-9008", "subject": "Ampliar el contrato", "customer": "Viñedos Peñalba", "language": "es", '
        '"priority": "normal", "channel": "phone", "amount": "ciento veinte", "currency": "EUR"}'
    ),
    # a list, not an object
    '["T-9009", "Où est ma facture ?", "Boulangerie Lefèvre"]',
    # a field that nobody knows
    (
        '{"ticket": "T-9010", "subject": "Kasse startet nicht", "customer": "Gärtnerei Blümel", "language": "de", '
        '"priority": "urgent", "channel": "phone", "mood": "angry"}'
    ),
    # no number that could be a ticket's
    (
        '{"ticket": "ticket #9011", "subject": "Password reset", "customer": "Mabel\'s Tea Room", "language": "en", '
        '"priority": "low", "channel": "mail"}'
    ),
    # half of a surrogate pair: it reads as JSON, but is no text
    (
        '{"ticket": "T-9012", "subject": "Emoji broken \\ud83d", "customer": "Thistle & Thread", "language": "en", '
        '"priority": "low", "channel": "chat"}'
    ),
    # null instead of a customer
    (
        '{"ticket": "T-9013", "subject": "CSVが文字化けします", "customer": null, "language": "ja", '
        '"priority": "normal", "channel": "mail"}'
    ),
    # nothing at all
    "",
)
