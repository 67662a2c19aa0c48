"""Tables of phrases for message texts in German, English and French, with names and firms.

All are fictitious. The terms on documents are in `document_terms`, the firms on them in `firms`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LanguagePhrases:
    """The phrases of one language."""

    names: tuple[str, ...]
    firms: tuple[tuple[str, str], ...]
    greetings: tuple[str, ...]
    sentences: tuple[str, ...]
    closings: tuple[str, ...]
    subjects: tuple[str, ...]
    wrote: str
    headlines: tuple[str, ...]
    more: str
    unsubscribe: str
    forwarded: str
    sender_label: str
    date_label: str
    subject_label: str
    recipient_label: str
    away_subject: str
    away: str
    attached: str
    invoice: str
    contract_note: str


GERMAN = LanguagePhrases(
    names=(
        "Jürgen Möller",
        "Anke Schäfer",
        "Björn Krüger",
        "Sabine Weiß",
        "Tobias Lindner",
        "Käthe Brandt",
        "Hans-Peter Groß",
        "Ulrike Jäger",
        "Matthias Vogel",
        "Franziska König",
        "Dörte Petersen",
        "Stefan Hoffmann",
        "Claudia Süß",
        "Jens Böhm",
    ),
    firms=(
        ("Lindner Bau GmbH", "lindner-bau.example"),
        ("Möller & Söhne KG", "moeller-soehne.example"),
        ("Nordlicht Logistik AG", "nordlicht-logistik.example"),
        ("Werkstatt Süd e.K.", "werkstatt-sued.example"),
        ("Papierhaus Krüger", "papierhaus.example"),
        ("Stadtgrün Service GmbH", "stadtgruen.example"),
    ),
    greetings=(
        "Guten Tag,",
        "Sehr geehrte Damen und Herren,",
        "Hallo zusammen,",
        "Liebe Kolleginnen und Kollegen,",
        "Moin,",
    ),
    sentences=(
        "Vielen Dank für Ihre Nachricht von gestern.",
        "Die Lieferung ist heute früh vollständig eingetroffen.",
        "Können wir den Termin auf Donnerstag um 14 Uhr verschieben?",
        "Im Anhang finden Sie die überarbeitete Fassung.",
        "Der Prüfbericht liegt noch nicht vor, wir rechnen aber bis Freitag damit.",
        "Bitte geben Sie mir kurz Bescheid, ob das für Sie so passt.",
        "Die Maße haben wir vor Ort noch einmal aufgenommen.",
        "Für die zweite Baustufe fehlt uns weiterhin die Freigabe.",
        "Das Angebot gilt bis zum Ende des Monats.",
        "Wir haben die Änderungen mit der Buchhaltung abgestimmt.",
        "Größere Abweichungen sind uns dabei nicht aufgefallen.",
        "Herr Böhm übernimmt die Vertretung während meines Urlaubs.",
        "Die Kosten bleiben im vereinbarten Rahmen.",
        "Über eine kurze Rückmeldung würde ich mich freuen.",
        "Der Schlüssel liegt wie besprochen am Empfang.",
        "Für Rückfragen stehe ich Ihnen jederzeit gern zur Verfügung.",
        "Die neue Maschine läuft seit Montag im Probebetrieb.",
        "Anbei das Protokoll unserer Besprechung mit den offenen Punkten.",
        "Ein Ersatzteil müssen wir leider nachbestellen.",
        "Die Frist ist knapp, aber wir können sie halten.",
        "Frau Süß hat die Unterlagen bereits unterschrieben zurückgeschickt.",
        "Wir schlagen vor, die Übergabe in zwei Schritten zu machen.",
        "Die Zahlen für das dritte Quartal folgen nächste Woche.",
        "Das Lager in der Südstraße ist ab dem Ersten wieder geöffnet.",
        "Mit dem Ergebnis sind wir insgesamt sehr zufrieden.",
    ),
    closings=("Mit freundlichen Grüßen", "Viele Grüße", "Beste Grüße", "Herzliche Grüße"),
    subjects=(
        "Terminverschiebung",
        "Angebot für die Baustufe",
        "Protokoll der Besprechung",
        "Rückfrage zur Lieferung",
        "Freigabe nötig",
        "Übergabe am Freitag",
        "Änderungen im Entwurf",
        "Unterlagen für das Quartal",
        "Schlüsselübergabe",
    ),
    wrote="Am {date} schrieb {name}:",
    headlines=(
        "Neu im Sortiment: leise Lüfter für große Räume",
        "Fünf Fragen an unsere Werkstattleiterin",
        "Sommeröffnungszeiten",
        "So sparen Sie beim Heizen",
        "Frühbucherrabatt noch bis Sonntag",
        "Aus dem Lager: Restposten zum halben Preis",
    ),
    more="Weiterlesen",
    unsubscribe="Abmelden",
    forwarded="---------- Weitergeleitete Nachricht ----------",
    sender_label="Von",
    date_label="Datum",
    subject_label="Betreff",
    recipient_label="An",
    away_subject="Automatische Antwort: {subject}",
    away="ich bin zurzeit nicht im Büro und lese Ihre Nachricht nach meiner Rückkehr.",
    attached="Im Anhang erhalten Sie das genannte Dokument.",
    invoice="Rechnung",
    contract_note="Wertpapierabrechnung",
)

ENGLISH = LanguagePhrases(
    names=(
        "Alice Hartwell",
        "Tom Pemberton",
        "Grace Okafor",
        "Liam Ashdown",
        "Priya Raman",
        "Oliver Stokes",
        "Hannah Fairley",
        "Marcus Bell",
        "Eleanor Whit",
        "Daniel Crowe",
        "Sophie Marlow",
        "Ravi Menon",
        "Judith Lane",
        "Peter Halloway",
    ),
    firms=(
        ("Harbour Lane Supplies Ltd", "harbourlane.example"),
        ("Ashdown & Crowe LLP", "ashdown-crowe.example"),
        ("Bluebell Catering", "bluebell.example"),
        ("Fairley Instruments Inc.", "fairley.example"),
        ("Northgate Print Works", "northgate-print.example"),
        ("Marlow Freight Co.", "marlow-freight.example"),
    ),
    greetings=("Hi,", "Hello,", "Good morning,", "Dear all,", "Dear colleagues,"),
    sentences=(
        "Thanks for getting back to me so quickly.",
        "The shipment arrived this morning and everything is there.",
        "Could we move the call to Thursday at two?",
        "I have attached the revised draft for you to look at.",
        "The inspection report is not in yet, but we expect it by Friday.",
        "Please let me know whether that works for you.",
        "We measured everything again on site to be safe.",
        "We are still waiting for the approval of the second stage.",
        "The offer stands until the end of the month.",
        "I went through the changes with accounting yesterday.",
        "Nothing in there surprised me, except for the cost of the packaging.",
        "Ravi is covering for me while I am away.",
        "So far we are within the agreed budget.",
        "A short answer would be enough for now.",
        "The key is at the front desk, as discussed.",
        "Do call me if anything is unclear.",
        "The new machine has been running on trial since Monday.",
        "The minutes are below, with the open points marked.",
        "We have to reorder one spare part, I am afraid.",
        "The deadline is tight, but we can make it.",
        "Judith has already returned the signed papers.",
        "I would suggest that we hand over in two steps.",
        "The figures for the third quarter will follow next week.",
        "The warehouse opens again on the first of the month.",
        "On the whole we are very happy with the result.",
    ),
    closings=("Best regards,", "Kind regards,", "Thanks,", "All the best,"),
    subjects=(
        "Moving the call",
        "Offer for the second stage",
        "Minutes of our meeting",
        "Question about the shipment",
        "Approval needed",
        "Handover on Friday",
        "Changes to the draft",
        "Papers for the quarter",
        "Keys at the front desk",
    ),
    wrote="On {date}, {name} wrote:",
    headlines=(
        "New this week: quiet fans for large rooms",
        "Five questions for our head of workshop",
        "Summer opening hours",
        "How to spend less on heating",
        "Early bird prices end on Sunday",
        "From the warehouse: last pieces at half price",
    ),
    more="Read more",
    unsubscribe="Unsubscribe",
    forwarded="---------- Forwarded message ----------",
    sender_label="From",
    date_label="Date",
    subject_label="Subject",
    recipient_label="To",
    away_subject="Automatic reply: {subject}",
    away="I am out of the office at the moment and will read your message when I am back.",
    attached="Please find the document attached.",
    invoice="Invoice",
    contract_note="Contract note",
)

FRENCH = LanguagePhrases(
    names=(
        "Chloé Lefèvre",
        "Jérôme Garnier",
        "Élodie Marchand",
        "François Dubreuil",
        "Hélène Moreau",
        "Benoît Caron",
        "Aurélie Fontaine",
        "Rémi Delacour",
        "Noémie Besson",
        "Gaël Rivière",
        "Agnès Prévost",
        "Loïc Tessier",
    ),
    firms=(
        ("Atelier Garnier SARL", "atelier-garnier.example"),
        ("Fontaine & Fils SA", "fontaine-fils.example"),
        ("Papeterie du Théâtre", "papeterie-theatre.example"),
        ("Transports Rivière SAS", "transports-riviere.example"),
        ("Boulangerie Prévost", "prevost.example"),
        ("Verrerie de l'Étang", "verrerie-etang.example"),
    ),
    greetings=("Bonjour,", "Madame, Monsieur,", "Bonjour à tous,", "Chers collègues,"),
    sentences=(
        "Merci pour votre réponse rapide.",
        "La livraison est arrivée ce matin, tout y est.",
        "Pourrions-nous déplacer la réunion à jeudi, 14 heures ?",
        "Vous trouverez ci-joint la version révisée.",
        "Le rapport de contrôle n'est pas encore là, nous l'attendons d'ici vendredi.",
        "Dites-moi si cela vous convient.",
        "Nous avons repris toutes les mesures sur place.",
        "Il nous manque toujours l'accord pour la deuxième étape.",
        "L'offre reste valable jusqu'à la fin du mois.",
        "J'ai vu les modifications avec la comptabilité hier.",
        "Rien d'étonnant, à part le coût des emballages.",
        "Loïc me remplace pendant mes congés.",
        "Nous restons dans le budget prévu.",
        "Une réponse brève suffirait pour l'instant.",
        "La clé est à l'accueil, comme convenu.",
        "N'hésitez pas à m'appeler en cas de question.",
        "La nouvelle machine tourne à l'essai depuis lundi.",
        "Le compte rendu est ci-dessous, avec les points encore ouverts.",
        "Il faut hélas recommander une pièce détachée.",
        "Le délai est serré, mais nous pouvons le tenir.",
        "Agnès a déjà renvoyé les documents signés.",
        "Je propose une remise en deux étapes.",
        "Les chiffres du troisième trimestre suivront la semaine prochaine.",
        "L'entrepôt rouvre le premier du mois.",
        "Dans l'ensemble, le résultat nous plaît beaucoup.",
    ),
    closings=("Cordialement,", "Bien à vous,", "Meilleures salutations,", "Bonne journée,"),
    subjects=(
        "Réunion déplacée",
        "Offre pour la deuxième étape",
        "Compte rendu de la réunion",
        "Question sur la livraison",
        "Accord nécessaire",
        "Remise vendredi",
        "Modifications du projet",
        "Pièces pour le trimestre",
        "Clés à l'accueil",
    ),
    wrote="Le {date}, {name} a écrit :",
    headlines=(
        "Nouveautés : des ventilateurs silencieux",
        "Cinq questions à notre chef d'atelier",
        "Horaires d'été",
        "Chauffer mieux, dépenser moins",
        "Tarifs réduits jusqu'à dimanche",
        "Fin de série : tout à moitié prix",
    ),
    more="Lire la suite",
    unsubscribe="Se désabonner",
    forwarded="---------- Message transféré ----------",
    sender_label="De",
    date_label="Date",
    subject_label="Objet",
    recipient_label="À",
    away_subject="Réponse automatique : {subject}",
    away="je suis absent pour le moment et lirai votre message à mon retour.",
    attached="Vous trouverez le document en pièce jointe.",
    invoice="Facture",
    contract_note="Avis d'opéré",
)

PHRASES = {"de": GERMAN, "en": ENGLISH, "fr": FRENCH}
LANGUAGES = tuple(PHRASES)
