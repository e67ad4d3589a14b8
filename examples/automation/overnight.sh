#!/bin/sh
# Tries each line of changes.txt on top of the changes that were kept so far.
train() { # train FOLDER FLAGS...: several seeds of one configuration
	folder=$1
	shift
	grpo ablate one.yaml --seeds "${SEEDS:-8}" --out "$folder" --quiet "$@" >>log 2>&1
}
train base || exit
incumbent=base kept='' n=0
while read -r change; do
	n=$((n + 1))
	train "$n" $kept $change || { echo "$n failed     $change"; continue; }
	grpo gate "$n" --against "$incumbent" --margin 2 >"$n.json" 2>>log
	case $? in
	0) echo "$n keep       $change" && incumbent=$n kept="$kept $change" ;;
	1) echo "$n discard    $change" ;;
	3) echo "$n undecided  $change" ;;
	*) echo "$n error      $change (see log)" && exit 2 ;;
	esac
done <changes.txt
echo "kept:$kept"
