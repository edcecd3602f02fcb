# All commands, with the verifier's sandbox. First `make release`, which writes the wheel to dist/:
#   docker build -t maxatk .
#   docker run --rm maxatk doctor
# With Docker's default flags programs are confined by seccomp, Landlock and a user of their own. All
# layers hold with `--cap-add SYS_ADMIN --security-opt apparmor=unconfined`, which trusts the container
# more. `--security-opt seccomp=unconfined` and `--privileged` are never needed.
FROM python:3.12-slim
COPY dist/maxatk-*.whl constraints.txt /install/
RUN pip install --no-cache-dir "$(ls /install/*.whl)[train,serve,report,math]" -c /install/constraints.txt \
    && rm -r /install
# The verifier starts as root, to give its programs a user that owns nothing.
WORKDIR /work
ENTRYPOINT ["maxatk"]
CMD ["doctor"]
