"""The words with which people direct an assistant whatever the work is about: "now do the same for the other file".

They and stop words say nothing about what a prompt asks; see docs/adr/0125-steering-is-not-asking.md. Pure.
"""

import re

from search.languages import COMMON_WORDS, pairs_of

_JOINTS = re.compile(r"[-'\u2019]")
_ENGLISH = """
add added adding adds again ago ahead all already alright also always another answer anyway applied apply approach ask
asked back bad bare before begin best better bit both bring broke broken change changed changes check choose clean
cleanup clear clearly close code command comment comments commit compare complete completed completely continue copy
correct could create decide delete describe detail detailed details did different directory do doc docs document
documentation documents does doing done dont double double-check each earlier easy edit else end ending enough error
errors even ever every everything everywhere exactly example examples existing expand explain explanation extend extra
fail failed fails far few file files final find fine finish first fix fixed folder follow forget forgot found four
full fully function get give given go goes going good got great half hand happened hard help here hmm hold improve
improved include included instead is keep kept kind last later latest least leave left less let lets like line lines
list little long longer look looks lot made make makes many matter maybe mean meant message method mind minimum minute
missed missing mistake module more most move moved much name names need needed needs never new newer next nice no not
note notes nothing now number numbers off ok okay old once one ones only open opposite option options order original
other others out output over own page paragraph part parts paste pattern perfect pick place please point possible
previous print problem proceed push put question quick quickly quite read ready really reason redo reduce remaining
remember remove rename repair repeat rephrase replace reply rest restore result results return revert review reword
rewrite right round run running same save saw say says second see seems send sentence sentences separate set short
shorter should show shown simple simpler simplify single skip slightly small smaller some something soon sorry sort
split start started starting step steps still stop stopped stuff suggest suggested suggestion suggestions summarise
summarize summary sure switch take task tell test tests text thank thanks that then there thing things think third
this those three through tidy time times title today together told tomorrow too top touch translate tried trim try
turn twice two type understand understood undo until update updated use used using value values variable verify
version versions wait want wanted way well went whole why with without wont word words work worked working works would
write written wrong yeah yes yesterday yet
"""
_GERMAN = """
abbrechen absatz abschnitt alle allem allen aller alles also alte alten altes andere anderen anderer anderes anders
anfang anpassen anschauen ansehen antwort anwenden art aufgabe aufräumen ausführen ausführlich ausführlicher ausgabe
ausprobieren aussieht bearbeite bearbeiten beende beenden befehl beginne beginnen behalt behalte beide beiden beides
beim beispiel benutz benutze benutzen bereits beschreibe beschreiben besser besseren besseres bisher bisschen bitte
bleib bleiben brauche brauchen brauchst brich bring code dafür danach danke dann darüber dass dasselbe datei dateien
davon davor dazu denk denke derselbe dessen detail details diese diesem diesen dieser dieses direkt doch dokument
dokumentation dort drei durchführen eben ebenfalls ebenso einfach einfacher einmal ende endlich entferne entfernen
entscheide entscheiden ergänze erklär erkläre erklären erledigt ernst ersetz ersetze ersetzen erst erste ersten erster
erstes erstmal erweitere erweitern etwas eventuell fahr fahre falsch fang fehlende fehlenden fehler fehlt fehlte
fertig formulier formuliere fortfahren fortsetzen frage fragen funktion funktioniert füg füge ganz ganze ganzen
gefallen gefällt geh gehe gehen geht gehts gemacht gemeint genau genauer genauso gerade gern gerne gesagt geschrieben
geändert gib gibt gleich gleiche gleichen gleicher gleiches gleichzeitig grund gut gute guten habt halt hast hier
hinzu hinzufügen hol idee immer ja jede jeden jeder jedes jetzt kannst klar klasse kleine kleiner klingt komm
kommentar kommentare kommt kopier kopiere korrekt korrigiere kurz kurze kurzen könntest kürze kürzen kürzer lang lass
lasse lassen lauf laufen letzte letzten letzter letztes lieber lies liste listen lösch lösche löschen lösung mach
mache machen machs machst macht mal mehr mein meine meinen meinst meinte methode möchte möglichkeit nachher name namen
nehmen nein neu neue neuen neues nichts niemals nimm noch nochmal nochmals nummer nächste nächsten nächster nächstes
oben okay optimiere option ordentlich ordne ordner passend passender passt perfekt plan prima probier probiere problem
prüf prüfe rest richtig ruhig räum rückgängig rückmeldung sache sachen sag satz sauber schaffst schau schaue schlecht
schließe schneller schreib schreibe schreiben schritt schritte schöner seite sicher sieh sieht sinnvoll sofort sollen
sollst sonst sortiere speichere speichern spring später stand starte starten statt stattdessen stelle stellen stimmt
stopp such sätze teil teile test teste tests text titel toll trotzdem tu tun umbenennen umformulieren unten
ursprünglich ursprüngliche ursprünglichen variable variablen variante verbessere verbessern vereinfache vergessen
vergiss vergleiche vergleichen verkürze verschieb verschiebe version verstanden verstehe verstehst versuch versuche
verwende verwenden viel vielleicht vor vorgeschlagen vorher vorherige vorherigen vorhin vorn vorne vorschlag wart
warte weg weiter weitere weiteren weitermach weitermachen welche wende wenig weniger wert werte wieder wiederhole
wiederholen wirklich wort worte wörter würdest zahl zahlen zeig zeige zeile zeilen zuerst zuletzt zunächst zurück
zusammen zusammenfassen zusammenfassung zusammengefasst zwei zweimal zweite zweiten zweiter zweites ändere ändern
änderung änderungen öffne öffnen überall übernehmen übernimm überprüfe überschrift übersetze übersicht überspring
überspringe übrig übrigen
"""
_SPANISH = """
abajo abre abrir acaba acabar acabas adelante además ahora ahorita ahí algo alguna alguno allí ambos amplía anterior
anteriores antes aplica aplicar aplícalo aquí archivo archivos arregla arreglar arriba arréglalo así atrás aunque
ayuda ayúdame añade añadir añádela añádelo bien borra borrar buena bueno busca cada cambia cambiado cambiar cambias
cambiaste cambio cambios carpeta carpetas caso cerca cerrar claramente claro clase comando comentario comentarios
comienza compara comparar completa completar completo comprobar comprueba compruébalo continuar continúa copia
correcto corrige corta corto cosa cosas crea creo cualquier cuenta cámbiala cámbialo código da dame debe debería
deberías debes decide decir deja dejar dejas dejes del demás dentro desde deshacer deshaz después detalladamente
detalle detalles devuelve di diferente dijiste dime distinta distinto documentación documento documentos donde dos
déjalo ejecuta ejemplo ejemplos elegir elige elimina embargo empezar empieza encima entendido entiendes entiendo
entonces error errores esa escribe escribir escríbelo ese espera esperar estaba estar este esto estuvo está están
estás exactamente explica explicar explícame extra falta faltó favor fichero ficheros final forma frase frases fue
funciona funcionan funcionó función general gracias guarda guardar gusta haber hace hacer haces hacia haciendo haga
hagas hagámoslo hasta haz hazlo hecho hemos hice hiciste hizo idea igual importa intenta intentar inténtalo ir juntos
lado lectura lee lista listo llama luego lugar línea líneas manera mantén mejor mejora mejorar mejóralo menos mensaje
mira mirar misma mismas mismo mismos modo momento mostrar mucho muestra mueve muy muéstrame más método míralo nada
necesitamos necesito nombre nombres nueva nuevo nunca número números ok olvida olvidaste olvidó opciones opción orden
ordena ordenar original otra otras otro otros palabra palabras para parece parte partes pasa paso pasos pequeño perdón
perfecto pero poco podemos podrías pon poner ponlo porque posible pregunta primer primera primero principio probar
problema pronto prueba pruebas pruébalo puede puedes punto puntos puse página párrafo queda quería quiere quieres
quiero quita quitar quizás quítalo razón realmente reduce reducir reemplaza reescribe reescribir regresa renombra
repite repítelo respuesta restantes restaura resto resultado resume resumen revisa revisar revísalo rápido salida
salta seguir segunda segundo segura seguro sigue siguen siguiente siguientes simple simplifica sin sirve sobre
solamente solo solución son soy sugerencia sugeriste sustituye sólo tal también tampoco tan tarda tarde tarea tenemos
tener termina terminar texto tiempo tipo toca tocar todas todavía todo todos toma toques total trabajo traduce trata
tres título usa usar uso va vale valor valores vamos variable vas ve veces ver versión vez vista vuelto vuelva vuelvas
vuelve vuélvelo última últimas último últimos
"""
_FRENCH = """
accord affichage affiche aide ailleurs ajoute ajouter ajouté alors améliore améliorer ancien ancienne annule annuler
aperçu applique appliquer après arrête assez attend attends aucun aucune aussi autre autrement autres avance avant
avec bas beaucoup besoin bien bon bonne bref c casse ce ceci cela celle celles celui cette ceux change changement
changements changer changé chaque choisir choisis chose choses ci clair clairement code combien commande comme
commence commencer commentaire commentaires compare complet complète compléter comprends compris continue continuer
copie corrige corriger coup cours court courte crée créer côté dedans demande demander dernier derniers dernière
dernièrement dernières dessous dessus deux deuxième devrais devrait différent différente dire dis disais dit document
documentation documents dois donc donne donner dossier dossiers droit décide déjà dépasse désolé détail détails efface
effacer encore enfin enlève enregistre ensemble ensuite erreur erreurs essaie essaye essayer est et exactement exemple
exemples explique expliquer expliques faire fais faisons fait faite faites fallait fasse faut ferme fichier fichiers
fin finalement fini finir fois fonction fonctionne forme garde garder genre gentil haut ici idée il importe inverse
juste laisse laisser lance lancer lequel lieu ligne lignes lis liste loin long longue là maintenant manière manque
marche marcher marché meilleur meilleure merci message mets mettre mieux modification modifications modifie modifier
modifié moi moins moment montre montrer mot mots moyen méthode même mêmes ne nettoie nom noms non note nouveau
nouvelle numéro numéros option options ordre original oublie oublier oublié oui ouvre où page paragraphe pareil
parfait partie parties partout pas passe passer pense petit petite peu peut peux phrase phrases place plaît plupart
plus plusieurs plutôt point possible pour pourquoi pourrais poursuis pouvons premier première prend prendre prends
problème prochain prochaine propose proposé précédent précédente puis quatre quelque quelques question quoi raccourcis
raison refaire refais regarde relance relire relis remets remettre remplace rends renomme reprendre reprends restant
restants restaure reste retire retour revenir reviens revoir rien réduire réduis répare réparer réponse répète répéter
résultat résume résumé réécrire réécris sais sauf saute seul seule seulement simple simplement simplifie sinon
solution sont sorte sortie sous souvent stop suffit suggestion suggéré suis suite suivant suivante suivants supprime
supprimer séparément sûr sûre tant tard tel telle temps termine terminer tes teste tester tests texte tiens titre toi
touche toujours tous tout toute toutes traduis trie trois troisième trop trouve truc très tu tâche utilise utiliser va
valeur valeurs variable vas vas-y vers version veut veux viens vite voilà voir vois voulais voulait vraie vraiment vu
vérifie vérifier vérifiez ça écrire écris étape étapes
"""
_CHINESE = """
现在对另一个文件做同样的事 好的请继续下一步 不对换一种方法再试一次 撤销你刚才做的最后一个修改
把其他的也都这样改一下 请写得再短一点 第一个方案可以就用那个 给我看看你改了什么 不要动其他的文件
也为这个加一个测试 还是不行再看一遍 解释一下你刚才做了什么 另一个也一样处理 你确定这样是对的吗
我不是这个意思 先停一下 不要这样 改回去 恢复原来的样子 继续吧 没问题 谢谢 很好 可以了 再来一次
重新运行 提交代码 删除 添加 修改 这里 那里 刚刚 上面的 下面的 剩下的 全部 都要 帮我 需要 应该
怎么样 为什么 什么时候 是不是 有没有 请检查 总结一下 换成第二个 用另一个
"""
_JAPANESE = """
同じことを他のファイルにもやって はい次のステップに進んでください いやそうじゃない別の方法で試して
最後の変更を元に戻して 残りも全部同じようにして もう少し短くしてください 最初の案でいいですそれにして
何を変えたか見せて 他のファイルは触らないで これにもテストを追加して まだ動かないもう一度見て
今やったことを説明して お願いします ありがとう 続けて やり直して 確認してください 書いてください
直してください 修正して 削除して 実行して 名前を変えて 本当に正しいですか 違います そのままで
両方とも 二番目の方 まとめて
"""
WORDS = (
    frozenset(f"{_ENGLISH} {_GERMAN} {_SPANISH} {_FRENCH}".split())
    | frozenset(pairs_of(f"{_CHINESE} {_JAPANESE}"))
    | COMMON_WORDS
)


def is_steering(word: str) -> bool:
    """Return whether a word directs an assistant and says nothing about a subject: also "montre-moi", or a letter."""
    return all(len(part) < 2 or part in WORDS for part in _JOINTS.split(word.lower()))
