# The interactive zsh of zsh-offers.zsh: Tab prints what is offered. Words of marks are in two
# parts, since the terminal shows them when they are typed.
autoload -Uz compinit
compinit -u -D
source $1
typeset -a offered
compadd() {
  # These only fill a variable.
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  offered+=($hits)
}
print_offered() { print -rn -- "OFFERS-""BEGIN${(F)offered}OFFERS-""END" }
comppostfuncs=(print_offered)
bindkey '^I' complete-word
PROMPT=''
print -n "OFFERS-""READY"
