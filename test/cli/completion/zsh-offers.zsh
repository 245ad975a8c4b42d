# zsh -f zsh-offers.zsh SCRIPT LINE: what zsh, with a completion script, offers for a line.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "source ${(q)0:A:h}/zsh-inside.zsh ${(q)1}"
zpty -r shell ready '*OFFERS-READY*'
zpty -n -w shell "$2"$'\t'
zpty -r shell text '*OFFERS-END*'
print -r -- ${${text#*OFFERS-BEGIN}%OFFERS-END*}
zpty -d shell
