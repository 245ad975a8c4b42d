"""Short texts as people type them into a search: questions of headings, a few words."""

import random
import re

GERUND = re.compile(r"^([A-Z]?[a-z]+ing)\b(.*)$")
NO_VERBS = set(
    "string thing nothing something anything everything king ring spring wing during morning evening"
    " warning meaning building setting ceiling pricing timing spelling heading listing training"
    " understanding existing following missing remaining pending incoming outgoing".split()
)
KEPT_E = set(
    "creat us mak writ updat delet remov chang defin configur compil execut declar generat"
    " initializ serializ customiz combin compar upgrad migrat enabl disabl handl manag packag"
    " reus resolv sav stor typ validat invok includ exclud translat calculat comput escap cach"
    " parameteriz organiz optimiz schedul separat simulat tun terminat activat allocat analyz"
    " append_ authenticat automat clos debat decid describ determin evaluat exchang explor expos"
    " improv integrat isolat iterat leverag locat measur merg mov nam normaliz obtain_ operat"
    " overrid pars pip plac prepar produc profil provid purg rais rat reduc releas renam replac"
    " reproduc requir restor restructur retriev rotat rout scal secur serv shar siz slic solv"
    " squash_ stag subscrib substitut synchroniz trac troubleshoot_ tim unsubscrib wip".split()
)
STOP = set(
    "a an the of to in on at by for from with and or not is are was were be been it its this that"
    " these those as if then than when which who what how why can may will would should could must"
    " do does did has have had you your we our they their there here also only other any all each"
    " such more most some no so into between about over under after before".split()
)
SHORT_VOWEL = re.compile(r"^(.*[^aeiou][aeiou])([bdgmnprt])\2$")


def verb_of(gerund: str) -> str | None:
    """"Creating" → "create"; null where the word is no verb's."""
    word = gerund.lower()
    if word in NO_VERBS or len(word) < 6:
        return None
    stem = word[:-3]
    if stem in KEPT_E:
        return stem + "e"
    doubled = SHORT_VOWEL.match(stem)
    if doubled and not stem.endswith(("ll", "ss", "dd")):
        return doubled[1] + doubled[2]
    return stem


def question_of(title: str, rng: random.Random) -> str | None:
    """A question that a section with this heading may answer; null where no rule applies."""
    if title.endswith("?"):
        return title
    words = title.split()
    if not 1 <= len(words) <= 9 or not title.isascii():
        return None
    gerund = GERUND.match(title)
    if gerund is not None and len(words) > 1:
        verb = verb_of(gerund[1])
        if verb is None:
            return None
        asked = ("How do I {}?", "How can I {}?", "How to {}", "What is the way to {}?")
        return rng.choice(asked).format(verb + gerund[2])
    if re.match(r"(?i)how to ", title):
        return f"How do I {title[7:]}?"
    if rng.random() < 0.45:
        asked = (
            "What is {}?",
            "How does {} work?",
            "What are {}?" if title.endswith("s") else "What is {} for?",
            "How do I use {}?",
            "Tell me about {}",
        )
        return rng.choice(asked).format(title)
    return None


def spoken(name: str) -> str:
    """A name of code in separate words: describeInstances → describe instances."""
    if " " in name or not re.fullmatch(r"[A-Za-z][\w.]*(?:\(\))?", name):
        return name
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_.]", " ", name.removesuffix("()"))
    return parts.lower().strip() or name


def keywords(sentence: str, rng: random.Random) -> str:
    """Two to six words of a sentence that mean something, in their order."""
    words = [w for w in re.findall(r"[\w.-]*\w", sentence) if w.lower() not in STOP and len(w) > 1]
    if len(words) < 3:
        return sentence
    chosen = sorted(rng.sample(range(len(words)), min(len(words), rng.randint(2, 6))))
    return " ".join(words[place] for place in chosen)
