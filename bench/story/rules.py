"""The words and the sentence rules of our little stories, for `FeatureGrammar`.

Numbers are ``sg`` and ``pl``, genders ``f`` and ``m``, articles ``a`` and ``an``. ``BEAT`` stands for what every kind
of sentence shares with its story: ``?r`` how the subject is called (name or pronoun), ``?h ?g`` its name and gender,
``?f ?k`` those of the other character, ``?s`` the kind of animal that is introduced, ``?t ?a`` the thing the story is
about and its adjective.
"""

from __future__ import annotations

BEAT = "?r ?h ?g ?f ?k ?s ?t ?a"

NAMES = {
    "f": "Mia Nora Lily Ruby Olive Clara Poppy Wendy Ida Stella Hazel Greta",
    "m": "Tom Ben Oscar Hugo Felix Leo Max Sam Otto Jasper Arthur Emil",
}
KINDS = (
    "fox foxes, rabbit rabbits, bear bears, mouse mice, hedgehog hedgehogs, badger badgers, duck ducks, goose geese, "
    "squirrel squirrels, frog frogs, cat cats, wolf wolves, pony ponies, beaver beavers, deer deer, owl owls, "
    "otter otters, eagle eagles, ox oxen, elk elks"
)
THINGS = (
    "kite kites, key keys, lantern lanterns, drum drums, bell bells, basket baskets, map maps, scarf scarves, "
    "boat boats, hat hats, crown crowns, ring rings, knife knives, brush brushes, box boxes, book books, "
    "whistle whistles, umbrella umbrellas, arrow arrows, anchor anchors, envelope envelopes, uniform uniforms"
)
FOODS = (
    "pear pears, plum plums, cake cakes, pie pies, nut nuts, carrot carrots, berry berries, cherry cherries, "
    "loaf loaves, apple apples, egg eggs, acorn acorns, onion onions"
)
ADJECTIVES = (
    "red blue green golden silver tiny big shiny wooden round useful broken old orange empty ugly enormous ordinary odd"
)
TRAITS = "brave clever shy lazy quiet funny gentle kind young curious wise honest old eager unusual"
WEATHERS = "rainy sunny windy snowy foggy stormy cold warm icy unusual autumn"
# Base, past, participle, -ing.
TAKES = (
    "find found found finding, see saw seen seeing, take took taken taking, carry carried carried carrying, "
    "hide hid hidden hiding, hold held held holding, drop dropped dropped dropping, choose chose chosen choosing, "
    "steal stole stolen stealing, bring brought brought bringing"
)
EATS = (
    "eat ate eaten eating, count counted counted counting, cook cooked cooked cooking, share shared shared sharing, "
    "gather gathered gathered gathering, peel peeled peeled peeling"
)
GOES = (
    "walk walked walked walking, run ran run running, go went gone going, hurry hurried hurried hurrying, "
    "hop hopped hopped hopping, drive drove driven driving, wander wandered wandered wandering"
)
RESTS = (
    "sit sat sat sitting, sleep slept slept sleeping, stand stood stood standing, wait waited waited waiting, "
    "rest rested rested resting, hide hid hidden hiding"
)
PLAYS = (
    "sing sang sung singing, dance danced danced dancing, laugh laughed laughed laughing, play played played playing, "
    "swim swam swum swimming, work worked worked working"
)
# Words whose sound disagrees with their first letter.
_ARTICLES = {"honest": "an", "useful": "a", "uniform": "a"}

_RULES = """
art a = a
art an = an
pron f = she
pron m = he
poss f = her
poss m = his
obj f = her
obj m = him
was sg = was
was pl = were
is sg = is
is pl = are
have sg = has
have pl = have
count = two | three | four | five | seven | many | a few
place = forest | river | barn | hill | lake | garden | market | bridge | mill | meadow | well | pond | village | oak
inside = forest | barn | garden | mill | meadow | village | kitchen | attic | tower | cave
atop = hill | bridge | island | roof | beach
near = near | behind | beside
aged = old | little | quiet | dark | green
shelter = bridge | oak | table | stairs | trees | roof
where = in the <inside> | in the <aged> <inside> | on the <atop> | <near> the <place> | <near> the <aged> <place>
 | under the <shelter> | at the <market>
market = market | harbour | school
goal = to the <place> | to the <aged> <place> | to the <market> | across the <inside>
time = morning | evening | afternoon | day | night
house = house | hut | nest | cottage | cabin
cosy a = cosy | tiny | warm | crooked
cosy an = old | ugly | empty
ahouse = <art ?x> <cosy ?x> <house> | a <house> made of <stuff>
stuff = wood | stone | straw | leaves | snow
joy = happy | proud | calm | glad
gloom = sad | lonely | afraid | worried
mood = <joy> | <gloom>
body = tired | hungry | sleepy | cold | thirsty | wet | late
feeling = <mood> | <body> | very <mood> | very <body> | <mood> and <body> | too <body> to <rests base>
 | too <gloom> to <plays base>
sky sg = sky | moon | sun
sky pl = clouds | stars | shadows
ground sg = wind | air | lake | grass
ground pl = fields | leaves | waves | paths
light = grey | bright | pale | golden | dark
air = soft | still | strange | cold | wild
manner = slowly | quickly | quietly | all day | alone | until noon
then = then | after that | at noon | the next morning | soon | a little later
look = looked | searched

# Noun phrases.
one ?t ?a = <art ?x> <thing ?t sg ?x> | <art ?x> <adj ?a ?x> <thing ?t sg ?y>
own ?t ?a = <thing ?t sg ?x> | <adj ?a ?x> <thing ?t sg ?y>
some sg = <one ?t ?a> | <art ?x> <food sg ?x>
some pl = <count> <thing ?t pl ?x> | <count> <adj ?a ?x> <thing ?t pl ?y> | <count> <food pl ?x>
meal sg = the <food sg ?x> | <art ?x> <food sg ?x>
meal pl = the <food pl ?x> | <count> <food pl ?x> | all of the <food pl ?x>
beast ?s = <art ?x> <kind ?s sg ?x> | <art ?x> <trait ?x> <kind ?s sg ?y> | <art ?x> <trait ?x> little <kind ?s sg ?y>
 | a very <trait ?x> <kind ?s sg ?y>
who name ?h ?g = <name ?h ?g>
who pron ?h ?g = <pron ?g>
group sg = the <kind ?s sg ?x> | one of the <kind ?s pl ?x> | each of the <kind ?s pl ?x> | every <kind ?s sg ?x>
 | the <trait ?x> <kind ?s sg ?y>
group pl = the <kind ?s pl ?x> | <count> <kind ?s pl ?x> | all of the <kind ?s pl ?x> | both of the <kind ?s pl ?x>
 | the <kind ?s sg ?x> and the <kind ?u pl ?y> | the <trait ?x> <kind ?s pl ?y>
crowd sg = neither the <kind ?s sg ?x> nor the <kind ?u sg ?y>
crowd ?n = <group ?n> | <group ?n> that <was ?n> <rests ing> <where> | <group ?n> that had <rests part> <where>
 | <group ?n> that lived near the <kind ?s pl ?x> | <group ?n> that lived with the <kind ?s sg ?x>
both ?h ?f = <name ?h ?g> and <name ?f ?k> | both <name ?h ?g> and <name ?f ?k>
said name ?h ?g = said <name ?h ?g> | said <name ?h ?g> <tone> | <name ?h ?g> answered
said pron ?h ?g = <pron ?g> said | <pron ?g> said <tone> | <pron ?g> answered
tone = softly | kindly | at once | with a smile | in a small voice
inquired name ?h ?g = asked <name ?h ?g> | asked <name ?h ?g> <tone>
inquired pron ?h ?g = <pron ?g> asked | <pron ?g> asked <tone>
cried name ?h ?g = cried <name ?h ?g>
cried pron ?h ?g = <pron ?g> cried

# The start.
opening BEAT = once upon a time there was <beast ?s> named <name ?h ?g> .
 | once there was <beast ?s> called <name ?h ?g> , who lived <where> .
 | long ago , <beast ?s> named <name ?h ?g> lived <where> .
 | once upon a time , in <ahouse> <where> , there lived <beast ?s> whose name was <name ?h ?g> .
 | <name ?h ?g> was <beast ?s> who lived <where> .
home BEAT = <who ?r ?h ?g> shared <poss ?g> home with <count> <kind ?u pl ?x> .
 | <who ?r ?h ?g> had <ahouse> , and in it there <was ?n> <some ?n> .
 | the best friends of <name ?h ?g> were <art ?x> <kind ?u sg ?x> and <count> <kind ?v pl ?y> .
habit BEAT = every <time> , <who ?r ?h ?g> <goes past> <goal> and <plays past> <manner> .
 | <who ?r ?h ?g> loved <food pl ?x> and <thing ?b pl ?y> more than anything else .
 | <who ?r ?h ?g> liked to <plays base> <where> , but <pron ?g> did not like to <rests base> <manner> .
 | <who ?r ?h ?g> had never <plays part> <where> , but <pron ?g> had often <rests part> there .
scene BEAT = it was <art ?x> <weather ?x> <time> , and the <sky ?n> <was ?n> <light> .
 | the <sky ?n> <was ?n> <light> , but the <ground ?m> <was ?m> <air> .
 | that <time> the <ground ?m> <was ?m> so <air> that <crowd ?n> <was ?n> <feeling> .
others BEAT = <crowd ?n> <was ?n> <feeling> .
 | <group ?n> <was ?n> <rests ing> <where> .
 | <crowd ?n> <was ?n> <eats ing> <meal ?m> <where> .
 | there <was sg> <art ?x> <kind ?u sg ?x> that <was sg> <eats ing> <meal ?m> .
 | there <was pl> <count> <kind ?u pl ?x> that <was pl> <eats ing> <meal ?m> .
 | <where> , <crowd ?n> <was ?n> playing with <some ?m> .
feel BEAT = <who ?r ?h ?g> was <gloom> because the <sky ?n> <was ?n> <light> .
 | <who ?r ?h ?g> was very <gloom> because <crowd ?n> <was ?n> <plays ing> <where> .
 | <who ?r ?h ?g> was <body> , for <pron ?g> had <goes part> all <time> .
 | <who ?r ?h ?g> wanted to <rests base> , but <pron ?g> was very <body> .
while BEAT = while <who ?r ?h ?g> was <rests ing> <where> , <crowd ?n> <was ?n> <eats ing> <poss ?g> <food pl ?x> .
 | when <who ?r ?h ?g> had <goes part> <goal> , <pron ?g> <eats past> <meal ?n> .
 | as <who ?r ?h ?g> <goes past> <goal> , <crowd ?n> <plays past> <where> .
 | <then> <who ?r ?h ?g> <takes past> <some ?n> and <goes past> <goal> .

# A thing is lost, found or wished for.
lost BEAT = one <weather ?x> <time> , <who ?r ?h ?g> lost <poss ?g> <own ?t ?a> <where> .
 | on <art ?x> <weather ?x> <time> , <who ?r ?h ?g> could not find <poss ?g> <own ?t ?a> .
 | one <weather ?x> <time> , <who ?r ?h ?g> saw that <poss ?g> <own ?t ?a> was gone .
found BEAT = one <weather ?x> <time> , <who ?r ?h ?g> found <one ?t ?a> <where> .
 | on <art ?x> <weather ?x> <time> , <who ?r ?h ?g> saw <one ?t ?a> that <crowd ?n> had <takes part> .
wished BEAT = one <weather ?x> <time> , <who ?r ?h ?g> wished for <one ?t ?a> .
 | <who ?r ?h ?g> had always wanted <one ?t ?a> , but <pron ?g> had never <takes part> one .
seek BEAT = <who ?r ?h ?g> <look> <where> , but the <own ?t ?a> was not there .
 | <then> <who ?r ?h ?g> <goes past> <goal> to look for the <own ?t ?a> .
 | <who ?r ?h ?g> <goes past> <goal> , because <pron ?g> wanted to find the <own ?t ?a> .
asklost BEAT = “ where is my <own ?t ?a> ? ” <inquired ?r ?h ?g> .
 | “ have you seen my <own ?t ?a> ? ” <inquired ?r ?h ?g> .
 | “ who has <takes part> my <own ?t ?a> ? ” <inquired ?r ?h ?g> .
 | “ <do ?n> <animals ?n> have my <own ?t ?a> ? ” <inquired ?r ?h ?g> .
do sg = does
do pl = do
animals ?n = the <kind ?s ?n ?x>
askwhose BEAT = “ whose <own ?t ?a> is this ? ” <inquired ?r ?h ?g> .
 | “ who has lost <one ?t ?a> ? ” <inquired ?r ?h ?g> .
 | “ is this your <own ?t ?a> ? ” <inquired ?r ?h ?g> .
askwish BEAT = “ where can I find <one ?t ?a> ? ” <inquired ?r ?h ?g> .
 | “ do you have <one ?t ?a> for me ? ” <inquired ?r ?h ?g> .
 | “ <do ?n> <animals ?n> have <one ?t ?a> ? ” <inquired ?r ?h ?g> .
chat BEAT = “ why <is ?n> <animals ?n> so <mood> ? ” <inquired ?r ?h ?g> .
 | “ <animals ?n> <is ?n> <eats ing> <meal ?m> , ” <said ?r ?h ?g> .
 | “ <animals ?n> <have ?n> <eats part> <meal ?m> , ” <said ?r ?h ?g> .
 | “ I am <mood> , and my friends are <body> , ” <said ?r ?h ?g> .
 | “ what <art ?x> <weather ?x> <time> ! ” <cried ?r ?h ?g> .
 | “ there <is ?n> <some ?n> <where> , ” <said ?r ?h ?g> .

# The other character.
met BEAT = <where> <who ?r ?h ?g> met <beast ?s> named <name ?f ?k> .
 | on the way , <who ?r ?h ?g> met <name ?f ?k> , <beast ?s> who was <rests ing> <where> .
 | <then> <who ?r ?h ?g> met <name ?f ?k> , <beast ?s> , and <pron ?k> was <eats ing> <meal ?n> .
help BEAT = “ I will help you , ” <said ?r ?h ?g> .
 | “ we must look <where> , ” <said ?r ?h ?g> .
 | “ I am <body> , but I will <goes base> with you <goal> , ” <said ?r ?h ?g> .
 | <who ?r ?h ?g> smiled and said : “ I know what we must do . ”
replylost BEAT = “ I have seen your <own ?t ?a> , ” <said ?r ?h ?g> .
 | “ <animals ?n> <have ?n> <takes part> your <own ?t ?a> , ” <said ?r ?h ?g> .
 | “ your <own ?t ?a> is <where> , ” <said ?r ?h ?g> .
 | <who ?r ?h ?g> thought and said : “ I saw your <own ?t ?a> <where> . ”
replywhose BEAT = “ it is my <own ?t ?a> , ” <said ?r ?h ?g> .
 | “ I lost my <own ?t ?a> <where> , ” <said ?r ?h ?g> .
 | <who ?r ?h ?g> smiled and said : “ that <own ?t ?a> is mine . ”
replywish BEAT = “ I have <one ?t ?a> for you , ” <said ?r ?h ?g> .
 | “ there is <one ?t ?a> <where> , ” <said ?r ?h ?g> .
 | <who ?r ?h ?g> laughed and said : “ you may have my <own ?t ?a> . ”
together BEAT = together they <goes past> <goal> and <look> <where> .
 | <both ?h ?f> were <rests ing> <where> when they saw <some ?n> .
 | neither <name ?h ?g> nor <name ?f ?k> was <gloom> , so they <goes past> <goal> .
 | <both ?h ?f> were <body> , but they did not <rests base> .
 | they <goes past> <goal> , where <crowd ?n> <was ?n> <plays ing> .
back BEAT = at last , <who ?r ?h ?g> found the <own ?t ?a> <where> .
 | there , <near> the <place> , was the <own ?t ?a> that <name ?h ?g> had lost .
gave BEAT = <who ?r ?h ?g> gave <name ?f ?k> the <own ?t ?a> .
 | <who ?r ?h ?g> gave the <own ?t ?a> to <name ?f ?k> , and <pron ?k> was very <joy> .
 | <then> <name ?h ?g> brought the <own ?t ?a> , and <name ?f ?k> carried it to <poss ?k> <house> .
thanks BEAT = <who ?r ?h ?g> thanked <name ?f ?k> for <poss ?k> help .
 | <who ?r ?h ?g> thanked <name ?f ?k> and gave <obj ?k> <some ?n> .
 | “ thank you , <name ?f ?k> , ” <said name ?h ?g> .

# The end.
ending BEAT = from that day on , <both ?h ?f> were the best of friends .
 | in the end , <both ?h ?f> were <joy> , and so <was ?n> <group ?n> .
 | then <name ?h ?g> and <name ?f ?k> <goes past> home , and they <rests past> until the morning .
 | after that , <name ?h ?g> and <name ?f ?k> <eats past> <meal ?n> together every <time> .
 | and so <name ?h ?g> and <name ?f ?k> lived happily ever after .
"""

PLOTS = {
    "lost": "opening home? habit lost feel scene? seek asklost others? met asklost replylost:f chat? together while? "
    "help:f seek? others together? back thanks ending",
    "found": "opening home? habit scene found askwhose feel? others met askwhose replywhose:f chat:f? gave "
    "thanks:f together others? together? while ending",
    "wished": "opening home? habit wished feel scene? while? askwish others met askwish replywish:f together chat? "
    "help:f? scene? others? gave:f thanks ending",
}


def _article(word: str) -> str:
    return _ARTICLES.get(word, "an" if word[0] in "aeiou" else "a")


def _nouns(symbol: str, table: str, tagged: bool) -> list[str]:
    pairs = [pair.split() for pair in table.split(", ")]
    return [
        f"{symbol} {f'{one} ' if tagged else ''}{number} {_article(word)} = {word}"
        for one, many in pairs
        for number, word in (("sg", one), ("pl", many))
    ]


def _verbs(symbol: str, table: str) -> list[str]:
    rows = [row.split() for row in table.split(", ")]
    return [f"{symbol} {form} = {word}" for row in rows for form, word in zip(("base", "past", "part", "ing"), row)]


def text() -> str:
    """Return all rules, lexicon included, in the notation of `FeatureGrammar`."""
    beats = [line.split()[0] for line in _RULES.splitlines() if " BEAT = " in line]
    lines = [_RULES.replace("BEAT", BEAT), *(f"sentence = <{beat} {BEAT}>" for beat in beats)]
    lines += [f"name {name} {gender} = {name}" for gender, names in NAMES.items() for name in names.split()]
    lines += _nouns("kind", KINDS, True) + _nouns("thing", THINGS, True) + _nouns("food", FOODS, False)
    lines += [f"adj {word} {_article(word)} = {word}" for word in ADJECTIVES.split()]
    lines += [f"trait {_article(word)} = {word}" for word in TRAITS.split()]
    lines += [f"weather {_article(word)} = {word}" for word in WEATHERS.split()]
    for symbol, table in {"takes": TAKES, "eats": EATS, "goes": GOES, "rests": RESTS, "plays": PLAYS}.items():
        lines += _verbs(symbol, table)
    return "\n".join(lines)
